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
  /** An absolute, normalised directory on the server. */
  deployPath: string
  /** The deploy token of the project: a secret. */
  token: string
  /** Empty means no script. A script here takes precedence over any script that the client provides. */
  preDeployScript: string
  postDeployScript: string
  postDeployAsync: boolean
  /** Null follows the setting `allow_client_scripts`. */
  allowClientScripts: boolean | null
  /** Names, or `PREFIX_*`, of the client's variables that reach the scripts if client scripts are off. */
  allowedEnv: string[]
  /** The user whose rights scripts and file operations below the target have; null for svc's own user. */
  runAs: string | null
  /** Octal, three or four digits, for scripts and files below the target; null for svc's own umask. */
  umask: string | null
  /** The time limit of a script in seconds; null follows the setting `script_timeout`. */
  scriptTimeoutSeconds: number | null
  /** `sh`, `bash`, or the absolute path of a program that takes a script with `-c`; null for `sh`. */
  scriptShell: string | null
  /** The working directory of scripts, relative to the target and within it; null for the target itself. */
  scriptDirectory: string | null
  /** Maximum size of what svc keeps of the project (archives and outputs), in MB; null for no limit of its own. */
  maxDiskMb: number | null
  /** How deployments treat the files in the target, and when they are a success. Absent keys have their default. */
  policy: PolicyChanges
  env: string
  categoryId: string | null
  pm2AppName: string | null
  pinned: boolean
  tagIds: string[]
  status: ProjectStatus
  lastDeployAt: string | null
  createdAt: string
  updatedAt: string
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

type Hidden = 'token' | 'preDeployScript' | 'postDeployScript'

/** A project as a caller sees it: null hides the deploy token from those below admin, and scripts from some of them. */
export type ShownProject = Omit<Project, Hidden> & { [Field in Hidden]: string | null }

/** Maximum of `maxDiskMb`: a hundred terabytes. */
export const maxDiskMbLimit = 100_000_000

/** The environment of a project that does not name one. */
export const defaultEnv = 'production'

/** The scripts of a project's last successful deployment that ran any, to copy them into the project with one click. */
export interface RecentScripts {
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
