import type { Instant } from './scalars.js'
import { changePolicy, policyReaders, type GivenPolicy, type PolicyChanges } from './policy.js'
import type { Readers } from './readers.js'

/** The status of the last deployment, or `idle` if there was none (§2.1; decided: the value set). */
export const projectStatuses = ['idle', 'running', 'success', 'failed'] as const
/** The status of a project. */
export type ProjectStatus = (typeof projectStatuses)[number]

/** A project as it is stored and as the API returns it (§2.1). */
export interface Project {
  id: string
  name: string
  description: string
  /** The target: an absolute directory on the server. */
  deployPath: string
  token: string
  preDeployScript: string
  postDeployScript: string
  /** Whether the post-deploy script runs in the background. */
  postDeployAsync: boolean
  /** Whether clients may send scripts. Null follows the setting allow_client_scripts. */
  allowClientScripts: boolean | null
  /** Names, or PREFIX_*, of client variables that scripts get even if client scripts are not allowed. */
  allowedEnv: string[]
  /** The user whose permissions apply to scripts and to writing the target. Null means the user of svc. */
  runAs: string | null
  /** File mode creation mask in octal. Null means the mask of svc. */
  umask: string | null
  /** Maximum duration of a script in seconds. Null follows the setting script_timeout. */
  scriptTimeoutSeconds: number | null
  /** `sh`, `bash` or the absolute path of a shell. Null means `sh`. */
  scriptShell: string | null
  /** Working directory of the scripts, relative to the target. Null means the target. */
  scriptDirectory: string | null
  /** Maximum size of the kept archives and outputs in MB. Null means no limit. */
  maxDiskMb: number | null
  /** How deployments treat the target, and when they are a success. Absent keys have their default. */
  policy: PolicyChanges
  env: string
  categoryId: string | null
  /** Name of the PM2 application of the project. */
  pm2AppName: string | null
  pinned: boolean
  tagIds: string[]
  /** The status of the last deployment, or `idle` if there was none. */
  status: ProjectStatus
  lastDeployAt: Instant | null
  createdAt: Instant
  updatedAt: Instant
}

/** Who reads the fields of a project. */
export const projectReaders: Readers<Project> = {
  fields: {
    id: 'everybody',
    name: 'everybody',
    description: 'everybody',
    deployPath: 'everybody',
    token: 'admins',
    preDeployScript: 'scripts',
    postDeployScript: 'scripts',
    postDeployAsync: 'everybody',
    allowClientScripts: 'everybody',
    allowedEnv: { items: 'everybody' },
    runAs: 'everybody',
    umask: 'everybody',
    scriptTimeoutSeconds: 'everybody',
    scriptShell: 'everybody',
    scriptDirectory: 'everybody',
    maxDiskMb: 'everybody',
    policy: policyReaders,
    env: 'everybody',
    categoryId: 'everybody',
    pm2AppName: 'everybody',
    pinned: 'everybody',
    tagIds: { items: 'everybody' },
    status: 'everybody',
    lastDeployAt: 'everybody',
    createdAt: 'everybody',
    updatedAt: 'everybody'
  }
}

/**
 * A project as a caller sees it: null hides the deploy token from those below admin, and scripts from some of them.
 * @schema Project
 */
export type ShownProject = Omit<Project, 'token' | 'preDeployScript' | 'postDeployScript'> & {
  /** The deploy token of the project, a secret. Null for callers below admin. */
  token: string | null
  /**
   * Script to run before extraction. Empty means none, null that the caller may not see it. It replaces the script of a
   * client.
   */
  preDeployScript: string | null
  /**
   * Script to run after extraction. Empty means none, null that the caller may not see it. It replaces the script of a
   * client.
   */
  postDeployScript: string | null
}

/** Maximum of `maxDiskMb`: a hundred terabytes. */
export const maxDiskMbLimit = 100_000_000

/** The environment of a project that does not name one. */
export const defaultEnv = 'production'

/** The scripts of a project's last successful deployment that ran any, to copy them into the project with one click. */
export interface RecentScripts {
  /** The deployment that ran the scripts, or null. */
  deployId: string | null
  preDeployScript: string
  postDeployScript: string
}

/** The fields of a project that a client can set. Undefined keeps the current value or the default. */
export interface ProjectFields {
  name?: string | undefined
  description?: string | undefined
  deployPath?: string | undefined
  preDeployScript?: string | undefined
  postDeployScript?: string | undefined
  postDeployAsync?: boolean | undefined
  allowClientScripts?: boolean | null | undefined
  allowedEnv?: string[] | undefined
  /** A user of the system. Only possible if svc runs as root. */
  runAs?: string | null | undefined
  umask?: string | null | undefined
  scriptTimeoutSeconds?: number | null | undefined
  scriptShell?: string | null | undefined
  scriptDirectory?: string | null | undefined
  maxDiskMb?: number | null | undefined
  /** Replaces the keys that are present; null restores the default of a key. */
  policy?: GivenPolicy | undefined
  env?: string | undefined
  categoryId?: string | null | undefined
  /** An empty string removes the binding (§2.1). */
  pm2AppName?: string | null | undefined
  pinned?: boolean | undefined
  /** Replaces all tags (§4.3). */
  tagIds?: string[] | undefined
}

/** The fields of a new project. */
export type NewProject = ProjectFields & { name: string; deployPath: string }

/** Returns a new project: fields that are not given have their defaults. */
export function newProject(fields: NewProject, { id, token, at }: { id: string; token: string; at: string }): Project {
  return {
    id,
    name: fields.name,
    description: fields.description ?? '',
    deployPath: fields.deployPath,
    token,
    preDeployScript: fields.preDeployScript ?? '',
    postDeployScript: fields.postDeployScript ?? '',
    postDeployAsync: fields.postDeployAsync ?? false,
    allowClientScripts: fields.allowClientScripts ?? null,
    allowedEnv: fields.allowedEnv ?? [],
    runAs: fields.runAs ?? null,
    umask: fields.umask ?? null,
    scriptTimeoutSeconds: fields.scriptTimeoutSeconds ?? null,
    scriptShell: fields.scriptShell ?? null,
    scriptDirectory: fields.scriptDirectory ?? null,
    maxDiskMb: fields.maxDiskMb ?? null,
    policy: changePolicy({}, fields.policy ?? {}),
    env: fields.env || defaultEnv,
    categoryId: fields.categoryId ?? null,
    pm2AppName: fields.pm2AppName ?? null,
    pinned: fields.pinned ?? false,
    tagIds: fields.tagIds ?? [],
    status: 'idle',
    lastDeployAt: null,
    createdAt: at,
    updatedAt: at
  }
}
