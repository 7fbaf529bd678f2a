/*
 * The policy of a project: how its deployments treat the files in the target, and when a deployment is a success. Every
 * key has a default, which is the behaviour of the specification: a deployment replaces files, and nothing is
 * checked afterwards. Only the keys that a project sets are stored, as JSON, so that a new key needs no new column.
 */

import { closest, parseUrl } from '../base/text.js'
import type { Readers } from './readers.js'
import { type Windows, windowsReaders } from './windows.js'
import { defaultRolloutPolicy, type RolloutPolicy, rolloutPolicyReaders } from './rollout.js'

/** What a deployment does about files that svc put there and that somebody has edited since. */
export const driftModes = ['off', 'warn', 'refuse'] as const
/** What happens if the post-deploy script fails: its files stay, or the earlier files are put back. */
export const postFailureModes = ['keep', 'revert'] as const
/** What runs after the earlier files are back: the post-deploy script again, or nothing. */
export const revertScripts = ['post', 'none'] as const

/** Whether a deployment removes the files of earlier ones that it does not contain. */
export const pruneModes = ['off', 'managed'] as const
/** What a rollback does: it puts the files of an archive over the others, or restores an earlier state exactly. */
export const rollbackModes = ['overlay', 'exact'] as const
/** Whether a deployment may replace contents that cannot be kept for a way back. */
export const exactModes = ['best', 'required'] as const

/** The policy of a project. */
export interface Policy {
  /** What a deployment does about files that were edited in the target. Default: `warn`. */
  drift: (typeof driftModes)[number]
  /** The checks after the files are in place. Default: none. */
  gate: Gate | null
  /** A deployment must be confirmed within this time, or the earlier files are put back. Default: never. */
  confirm: {
    /** @minimum 10 @maximum 86400 */
    seconds: number
  } | null
  /** Whether a failed post-deploy script puts the earlier files back. Default: `keep`. */
  onPostFailure: (typeof postFailureModes)[number]
  /** What runs after the earlier files are back. Default: `post`, the post-deploy script. */
  revertScript: (typeof revertScripts)[number]
  /** The script that runs after a deployment has failed or was reverted. Default: none. @maxLength 100000 */
  onFailureScript: string | null
  /** Whether a deployment removes files of earlier deployments that it does not contain. Default: `off`. */
  prune: (typeof pruneModes)[number]
  /** Globs of paths that are never removed. Default: none. @minLength 1 @maxLength 1000 */
  protect: readonly string[]
  /** Whether the deploy token of the project, or a deployer, may ask for a prune. Default: false. */
  pruneByDeployToken: boolean
  /**
   * Whether the deploy token of the project, or a deployer, may replace edited files if `drift` is `refuse`. Default:
   * false.
   */
  forceByDeployToken: boolean
  /** What a rollback does unless it says otherwise. Default: `overlay`, it puts files over the others. */
  rollback: (typeof rollbackModes)[number]
  /** Whether a deployment is refused if it cannot keep what it replaces. Default: `best`, it is not. */
  exact: (typeof exactModes)[number]
  /**
   * Permissions of files, in octal; executable files of the archive get x for each r. Default: those of the archive.
   * @minLength 1
   * @maxLength 4
   */
  fileMode: string | null
  /** Permissions of directories that svc makes, in octal. Default: those of the archive. @minLength 1 @maxLength 4 */
  directoryMode: string | null
  /**
   * Group of the files and directories that svc writes, its name or number. Default: that of the user that writes.
   * @minLength 1
   * @maxLength 32
   */
  group: string | null
  /** The file that `svc maintenance on` places in the target. Default: `.maintenance`. @maxLength 4096 */
  maintenanceFile: string
  /** A file of the target whose contents the maintenance file gets. Default: a page of svc. @maxLength 4096 */
  maintenancePage: string | null
  /** How a release gets to the nodes of the project. Default: one node first, then a quarter of all in each wave. */
  rollout: RolloutPolicy
  /** When deployments may begin. Those that go back always may. Default: at any time. */
  windows: Windows | null
  /**
   * The only project from which releases come: uploads are refused, and a release is promoted after it has been live there
   * for a time. Default: from anywhere.
   */
  promoteFrom: {
    /** The id of the project. */
    projectId: string
    /** Minutes. @minimum 0 @maximum 43200 */
    soakMinutes: number
  } | null
  /** How many others must approve a release before it begins. Those that go back need nobody. Default: nobody. */
  approval: Approval | null
  /** Who must have signed a release. Default: nobody. */
  signatures: SignaturePolicy
}

/** What happens to a release that is not signed as the policy says. */
export const signatureModes = ['off', 'warn', 'refuse'] as const
/** Whether a release needs a list of its components. */
export const sbomModes = ['off', 'require'] as const
/** Whether a rollback may bring an earlier release back. */
export const rollbackSignatures = ['allow', 'refuse'] as const

/** Who must have signed a release. */
export interface SignaturePolicy {
  /** What happens to a release that is not signed so: nothing, a warning in its output, or it is refused. */
  require: (typeof signatureModes)[number]
  /** How many keys must sign. @minimum 1 @maximum 16 */
  threshold: number
  /** Ids of the keys that may sign. Null: all that may sign for the project. @maxLength 100 */
  keys: readonly string[] | null
  /** Whether a push must have a list of its components. */
  sbom: (typeof sbomModes)[number]
  /** Whether a rollback may bring back a release that was signed before the newest one. */
  rollbackBySignature: (typeof rollbackSignatures)[number]
}

/** The values of `signatures` that a project does not set. */
export const defaultSignatures: SignaturePolicy = {
  require: 'off',
  threshold: 1,
  keys: null,
  sbom: 'off',
  rollbackBySignature: 'allow'
}

/** Who must approve a release. */
export interface Approval {
  /** How many must approve it. @minimum 1 @maximum 10 */
  count: number
  /** Roles that may approve it. Each includes the roles above it. */
  roles: readonly ApproverRole[]
  /** Whether the one who pushed it may not. */
  notPusher: boolean
  /** Hours after which it fails without a decision. @minimum 1 @maximum 720 */
  hours: number
}

/** Roles that a policy may ask to approve a release. */
export const approverRoles = ['deployer', 'operator', 'admin'] as const
/** One of them. */
export type ApproverRole = (typeof approverRoles)[number]

/** Limits of `approval`. */
export const approvalLimits = { count: 10, hours: 720 } as const

/** The values of `approval` that a project does not set. */
export const defaultApproval: Approval = { count: 1, roles: ['operator'], notPusher: true, hours: 24 }

/** Maximum of `promoteFrom.soakMinutes`: thirty days. */
export const maxSoakMinutes = 43_200

/** One check after the files are in place. @schema Check */
export type Check =
  | {
      http: string
      /** Accepted status codes. */
      status?: string
      /** Text that the body must contain in its first 64 KiB. */
      contains?: string
      /** Request headers. */
      header?: Record<string, string>
    }
  | { tcp: string }
  | {
      /** A script that must end with exit code 0. */
      command: string
      /** Seconds. @number */
      timeout?: number
    }
  | { pm2: 'online' }
  | {
      /** Id of a log source of the project. */
      log: string
      /** Regular expression that no new line may match. */
      none: string
      /** Seconds. @number */
      for: number
    }

/** The checks of a deployment, and how often they are repeated. Times are in seconds. @schema Gate */
export interface Gate {
  /** All must pass. */
  after: Check[]
  /** Seconds between two attempts. @number */
  interval: number
  /** Seconds that one attempt may take. @number */
  timeout: number
  /** Seconds after which the deployment fails. @number */
  deadline: number
  /** Number of attempts in a row that must pass. */
  successes: number
  /** Seconds for which the checks must continue to pass. @number */
  stableFor: number
  /** Whether a failed check puts the earlier files back. */
  onFailure: 'revert' | 'keep'
}

/** The policy of a project that sets nothing: the behaviour of the specification. */
export const defaultPolicy: Policy = {
  drift: 'warn',
  gate: null,
  confirm: null,
  onPostFailure: 'keep',
  revertScript: 'post',
  onFailureScript: null,
  prune: 'off',
  protect: [],
  pruneByDeployToken: false,
  forceByDeployToken: false,
  rollback: 'overlay',
  exact: 'best',
  fileMode: null,
  directoryMode: null,
  group: null,
  maintenanceFile: '.maintenance',
  maintenancePage: null,
  rollout: defaultRolloutPolicy,
  windows: null,
  promoteFrom: null,
  approval: null,
  signatures: defaultSignatures
}

/** The keys of a policy that a project sets. @schema Policy */
export type PolicyChanges = Partial<Policy>

/** Who reads the keys of a policy. */
export const policyReaders: Readers<Policy> = {
  fields: {
    drift: 'everybody',
    gate: {
      fields: {
        after: {
          items: {
            fields: {
              http: 'everybody',
              status: 'everybody',
              contains: 'everybody',
              header: { values: 'nobody' },
              tcp: 'everybody',
              command: 'scripts',
              timeout: 'everybody',
              pm2: 'everybody',
              log: 'everybody',
              none: 'everybody',
              for: 'everybody'
            }
          }
        },
        interval: 'everybody',
        timeout: 'everybody',
        deadline: 'everybody',
        successes: 'everybody',
        stableFor: 'everybody',
        onFailure: 'everybody'
      }
    },
    confirm: { fields: { seconds: 'everybody' } },
    onPostFailure: 'everybody',
    revertScript: 'everybody',
    onFailureScript: 'scripts',
    prune: 'everybody',
    protect: { items: 'everybody' },
    pruneByDeployToken: 'everybody',
    forceByDeployToken: 'everybody',
    rollback: 'everybody',
    exact: 'everybody',
    fileMode: 'everybody',
    directoryMode: 'everybody',
    group: 'everybody',
    maintenanceFile: 'everybody',
    maintenancePage: 'everybody',
    rollout: rolloutPolicyReaders,
    windows: windowsReaders,
    promoteFrom: { fields: { projectId: 'everybody', soakMinutes: 'everybody' } },
    approval: {
      fields: { count: 'everybody', roles: { items: 'everybody' }, notPusher: 'everybody', hours: 'everybody' }
    },
    signatures: {
      fields: {
        require: 'everybody',
        threshold: 'everybody',
        keys: { items: 'everybody' },
        sbom: 'everybody',
        rollbackBySignature: 'everybody'
      }
    }
  }
}
/** The keys of a policy in a request; null restores the default. */
export type GivenPolicy = { [Key in keyof Policy]?: Policy[Key] | null | undefined }

/** Returns the whole policy of a project. */
export function policyOf(project: { policy: PolicyChanges }): Policy {
  return { ...defaultPolicy, ...project.policy }
}

/**
 * Returns the keys that a project sets after a change. A key that is set to its default is not kept, unless it says more
 * than an absent one.
 */
export function changePolicy(before: PolicyChanges, given: GivenPolicy): PolicyChanges {
  const asked = Object.entries({ ...before, ...withoutAbsent(given) })
  const isSet = ([key, value]: [string, unknown]): boolean =>
    value !== null &&
    value !== undefined &&
    (tellingDefaults.has(key) || JSON.stringify(value) !== JSON.stringify(defaults.get(key)))
  return Object.fromEntries(asked.filter(isSet))
}

/**
 * Who obeys each key for a project on nodes. The hub judges a release where it arrives, rolls it out, and waits for its
 * confirmation; older agents do not know all of its keys. A key of the node also applies to what is done on the node itself.
 */
const obeyedBy: Readonly<Record<keyof Policy, 'hub' | 'node'>> = {
  drift: 'node',
  gate: 'node',
  confirm: 'hub',
  onPostFailure: 'node',
  revertScript: 'node',
  onFailureScript: 'node',
  prune: 'node',
  protect: 'node',
  pruneByDeployToken: 'node',
  forceByDeployToken: 'node',
  rollback: 'node',
  exact: 'node',
  fileMode: 'node',
  directoryMode: 'node',
  group: 'node',
  maintenanceFile: 'node',
  maintenancePage: 'node',
  rollout: 'hub',
  windows: 'hub',
  promoteFrom: 'hub',
  approval: 'hub',
  signatures: 'hub'
}

/** Returns the policy that the nodes of a project get. */
export function nodePolicy(policy: PolicyChanges): PolicyChanges {
  return Object.fromEntries(Object.entries(policy).filter(([key]) => obeyedBy[key as keyof Policy] !== 'hub'))
}

function withoutAbsent(given: GivenPolicy): GivenPolicy {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/** Keys that bind pushes once they are set, if only to the default (policy-keys.ts). */
const tellingDefaults: ReadonlySet<string> = new Set<keyof Policy>(['rollout'])

const defaults: ReadonlyMap<string, unknown> = new Map(Object.entries(defaultPolicy))

/*
 * The checks of a deployment: their limits, their forms, and their names. Each `…Fault` returns why a value of unknown
 * form is not usable, as the end of a sentence, or null.
 */

/** Limits of the checks. Times are in seconds. */
const gateLimits = {
  checks: 10,
  interval: { min: 0.1, max: 60 },
  timeout: { min: 0.1, max: 60 },
  deadline: { min: 1, max: 600 },
  successes: { min: 1, max: 100 },
  stableFor: { min: 0, max: 600 },
  commandTimeout: { min: 1, max: 600 },
  logFor: { min: 1, max: 600 }
} as const

/** The values of a gate that sets only its checks. */
export const defaultGate: Omit<Gate, 'after'> = {
  interval: 1,
  timeout: 5,
  deadline: 30,
  successes: 2,
  stableFor: 0,
  onFailure: 'revert'
}

/** Limits of the time in which a deployment must be confirmed, in seconds. */
export const confirmLimits = { min: 10, max: 86_400 } as const

const maxTextLength = 2_000
const maxScriptLength = 100_000
const maxHeaders = 20
const maxPort = 65_535

/** Returns why a gate is not usable, with the name of its field, or null. */
export function gateFault(value: unknown): { field: string; reason: string } | null {
  if (!isRecord(value)) return { field: '', reason: 'it must be an object' }
  const { after, onFailure } = value
  if (!Array.isArray(after)) return { field: 'after', reason: 'it must be a list of checks' }
  if (after.length > gateLimits.checks)
    return { field: 'after', reason: `at most ${gateLimits.checks} checks are allowed` }
  for (const [index, check] of after.entries()) {
    const fault = checkFault(check)
    if (fault !== null) return { field: `after.${index}${fault.field}`, reason: fault.reason }
  }
  for (const key of ['interval', 'timeout', 'deadline', 'successes', 'stableFor'] as const) {
    const reason = numberFault(value[key], gateLimits[key])
    if (reason !== null) return { field: key, reason }
  }
  if (!Number.isInteger(value['successes'])) return { field: 'successes', reason: 'it must be a whole number' }
  if (onFailure !== 'revert' && onFailure !== 'keep')
    return { field: 'onFailure', reason: 'it must be "revert" or "keep"' }
  const unknown = Object.keys(value).find(key => key !== 'after' && !Object.hasOwn(defaultGate, key))
  if (unknown === undefined) return null
  return { field: unknown, reason: `there is no such key${orMeant(unknown, ['after', ...Object.keys(defaultGate)])}` }
}

/** Returns which key was probably meant, as the end of a sentence. */
function orMeant(key: string, known: readonly string[]): string {
  const meant = closest(key, known)
  return meant === undefined ? '' : `. Did you mean "${meant}"?`
}

/** Returns why a number of seconds to confirm a deployment is not usable, or null. */
export function confirmSecondsFault(value: unknown): string | null {
  return Number.isInteger(value) ? numberFault(value, confirmLimits) : 'it must be a whole number of seconds'
}

type Faults = { [key: string]: (value: unknown) => string | null }

/** The forms of checks by the key that names them; a form lists its keys, and whether they are required. */
const forms: Record<string, { required: Faults; optional: Faults }> = {
  http: {
    required: { http: urlFault },
    optional: { status: statusFault, contains: text(maxTextLength), header: headerFault }
  },
  tcp: { required: { tcp: placeFault }, optional: {} },
  command: {
    required: { command: text(maxScriptLength) },
    optional: { timeout: value => numberFault(value, gateLimits.commandTimeout) }
  },
  pm2: { required: { pm2: value => (value === 'online' ? null : 'it must be "online"') }, optional: {} },
  log: {
    required: {
      log: text(100),
      none: patternFault,
      for: value => numberFault(value, gateLimits.logFor)
    },
    optional: {}
  }
}

/** Returns why a check is not usable, with the rest of the name of its field, or null. */
function checkFault(value: unknown): { field: string; reason: string } | null {
  const kinds = Object.keys(forms).join(', ')
  if (!isRecord(value)) return { field: '', reason: `it must be an object with one of: ${kinds}` }
  const kind = Object.keys(forms).find(key => Object.hasOwn(value, key))
  if (kind === undefined) return { field: '', reason: `it must have one of: ${kinds}` }
  const { required, optional } = forms[kind] as { required: Faults; optional: Faults }
  const faults = new Map(Object.entries({ ...required, ...optional }))
  for (const [key, given] of Object.entries(value)) {
    const fault = faults.get(key)
    if (fault === undefined)
      return { field: `.${key}`, reason: `a check "${kind}" has no such key${orMeant(key, [...faults.keys()])}` }
    const reason = fault(given)
    if (reason !== null) return { field: `.${key}`, reason }
  }
  const missing = Object.keys(required).find(key => !Object.hasOwn(value, key))
  return missing === undefined ? null : { field: `.${missing}`, reason: 'it is missing' }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function text(max: number): (value: unknown) => string | null {
  return value => {
    if (typeof value !== 'string' || value.trim() === '') return 'it must be a text'
    if (value.includes('\0')) return 'it contains a NUL character'
    return value.length > max ? `it has more than ${max} characters` : null
  }
}

function numberFault(value: unknown, { min, max }: { min: number; max: number }): string | null {
  const isFit = typeof value === 'number' && value >= min && value <= max
  return isFit ? null : `it must be a number from ${min} to ${max}`
}

function urlFault(value: unknown): string | null {
  if (typeof value !== 'string' || value.length > maxTextLength) return 'it must be a URL'
  const url = parseUrl(value)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'it must be a URL like "http://127.0.0.1:3000/up"'
  return url.username === '' && url.password === '' ? null : 'it must not contain a user name or a password'
}

function placeFault(value: unknown): string | null {
  return typeof value === 'string' && parsePlace(value) !== null ? null : 'it must be like "127.0.0.1:5432"'
}

/** Parses a host and a port, like `127.0.0.1:5432` or `[::1]:5432`. Returns null if that is not possible. */
export function parsePlace(value: string): { host: string; port: number } | null {
  const [, host = '', port = ''] = /^(\[[0-9a-fA-F:.]+\]|[^\s:[\]]+):(\d{1,5})$/.exec(value) ?? []
  const number = Number(port)
  return host === '' || number < 1 || number > maxPort ? null : { host, port: number }
}

function statusFault(value: unknown): string | null {
  return typeof value === 'string' && parseStatuses(value) !== null ? null : 'it must be like "200-299,304"'
}

/** Parses a list of status codes and ranges. Returns null if that is not possible. */
export function parseStatuses(value: string): Array<{ from: number; to: number }> | null {
  const ranges = value.split(',').map(item => {
    const [, first = '', last = first] = /^\s*([1-5]\d\d)(?:-([1-5]\d\d))?\s*$/.exec(item) ?? []
    return { from: Number(first), to: Number(last) }
  })
  return ranges.every(({ from, to }) => from > 0 && from <= to) ? ranges : null
}

function headerFault(value: unknown): string | null {
  if (!isRecord(value)) return 'it must be an object of texts'
  const entries = Object.entries(value)
  if (entries.length > maxHeaders) return `at most ${maxHeaders} headers are allowed`
  const isFit = entries.every(
    ([name, each]) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && typeof each === 'string' && /^[\t\x20-\x7e]*$/.test(each)
  )
  return isFit ? null : 'it contains a header that HTTP does not allow'
}

function patternFault(value: unknown): string | null {
  const fault = text(maxTextLength)(value)
  if (fault !== null) return fault
  return isExpression(logExpression(value as string)) ? null : 'it is not a regular expression'
}

/** Returns the expression of a log check. `(?i)` at its beginning ignores the case. Only search threads run it. */
export function logExpression(value: string): { source: string; flags: string } {
  const ignoresCase = value.startsWith('(?i)')
  return { source: ignoresCase ? value.slice('(?i)'.length) : value, flags: ignoresCase ? 'iu' : 'u' }
}

/** Whether JavaScript accepts an expression. It is compiled and never runs. */
export function isExpression({ source, flags }: { source: string; flags: string }): boolean {
  try {
    new RegExp(source, flags)
    return true
  } catch {
    return false
  }
}

/** Returns the names of the checks of a gate in outputs and results. Several commands are counted: their text is a script. */
export function titlesOfChecks(checks: readonly Check[]): string[] {
  const commands = checks.filter(check => 'command' in check)
  return checks.map(check =>
    'command' in check && commands.length > 1 ? `command ${commands.indexOf(check) + 1}` : titleOfCheck(check)
  )
}

function titleOfCheck(check: Check): string {
  if ('http' in check) return check.http
  if ('tcp' in check) return `tcp ${check.tcp}`
  if ('command' in check) return 'command'
  if ('pm2' in check) return 'pm2 online'
  return `log ${check.log}`
}
