/*
 * Which requests store or run a command. A browser that was left open must not be enough for them (auth/proof.ts).
 */
import type { Project } from './project.js'
import { defaultPolicy, policyOf } from './policy.js'

/**
 * The fields of a project, and whether a change of one decides what runs, where, as whom, or what a deploy token may do. A
 * new field needs its row here.
 */
const decides: { [Key in keyof WritableFields]: boolean } = {
  name: false,
  deployPath: true,
  description: false,
  env: false,
  categoryId: false,
  pm2AppName: true,
  tagIds: false,
  preDeployScript: true,
  postDeployScript: true,
  postDeployAsync: true,
  allowClientScripts: true,
  allowedEnv: true,
  runAs: true,
  umask: true,
  scriptTimeoutSeconds: false,
  scriptShell: true,
  scriptDirectory: true,
  maxDiskMb: false,
  policy: true,
  pinned: false
}

type WritableFields = Omit<Project, 'id' | 'token' | 'status' | 'lastDeployAt' | 'createdAt' | 'updatedAt'>

/** Whether a change of a project decides what runs. A field with the value that it has already changes nothing. */
export function changesCommands(project: Project, given: { [Key in keyof WritableFields]?: unknown }): boolean {
  return (Object.keys(decides) as Array<keyof WritableFields>).some(key => {
    const value = given[key]
    if (!decides[key] || value === undefined) return false
    if (key === 'policy') return !keepsPolicy(project, value as object)
    return JSON.stringify(value) !== JSON.stringify(project[key])
  })
}

function keepsPolicy(project: Project, given: object): boolean {
  const now: Record<string, unknown> = { ...policyOf(project) }
  const usual: Record<string, unknown> = { ...defaultPolicy }
  return Object.entries(given).every(
    ([key, value]) => value === undefined || JSON.stringify(value ?? usual[key]) === JSON.stringify(now[key])
  )
}
