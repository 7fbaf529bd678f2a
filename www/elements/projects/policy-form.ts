import type { Check, Gate, GivenPolicy, PolicyChanges } from '../../../lib/model/policy.js'
import { rolloutDraft, rolloutOfDraft, type RolloutDraft } from './rollout-form.js'

/* The form of a policy: its texts, and the policy that they stand for. Pure. */

/** The kinds of checks. */
export const checkKinds = ['http', 'tcp', 'command', 'pm2', 'log'] as const
/** A kind of checks. */
export type CheckKind = (typeof checkKinds)[number]

/** One check as texts. Fields of other kinds keep what was typed. */
export interface CheckDraft {
  kind: CheckKind
  http: string
  status: string
  contains: string
  tcp: string
  command: string
  log: string
  none: string
  for: string
  /** The saved check. Its fields that the form does not show stay. */
  saved: Check | null
}

/** The name of a text of a check. */
export type CheckField = Exclude<keyof CheckDraft, 'kind' | 'saved'>

/** The numbers of a gate that the form shows. */
export const gateNumbers = ['interval', 'timeout', 'deadline', 'successes', 'stableFor'] as const

/** A policy as texts. An empty text means the default. */
export interface PolicyDraft extends Record<(typeof gateNumbers)[number], string> {
  drift: string
  checks: CheckDraft[]
  onFailure: string
  confirmSeconds: string
  onPostFailure: string
  revertScript: string
  onFailureScript: string
  prune: string
  /** One glob per line. */
  protect: string
  pruneByDeployToken: string
  forceByDeployToken: string
  rollback: string
  exact: string
  fileMode: string
  directoryMode: string
  group: string
  maintenanceFile: string
  maintenancePage: string
  rollout: RolloutDraft
}

/** Returns the texts of a policy. */
export function draftOf(policy: PolicyChanges): PolicyDraft {
  const { drift, gate, confirm, onPostFailure, revertScript } = policy
  const numbers = gateNumbers.map(name => [name, gate ? String(gate[name]) : ''] as const)
  return {
    ...(Object.fromEntries(numbers) as Record<(typeof gateNumbers)[number], string>),
    drift: drift ?? '',
    checks: gate?.after.map(checkDraft) ?? [],
    onFailure: gate?.onFailure ?? 'revert',
    confirmSeconds: confirm ? String(confirm.seconds) : '',
    onPostFailure: onPostFailure ?? '',
    revertScript: revertScript ?? '',
    onFailureScript: policy.onFailureScript ?? '',
    prune: policy.prune ?? '',
    protect: (policy.protect ?? []).join('\n'),
    pruneByDeployToken: policy.pruneByDeployToken ? 'true' : '',
    forceByDeployToken: policy.forceByDeployToken ? 'true' : '',
    rollback: policy.rollback ?? '',
    exact: policy.exact ?? '',
    fileMode: policy.fileMode ?? '',
    directoryMode: policy.directoryMode ?? '',
    group: policy.group ?? '',
    maintenanceFile: policy.maintenanceFile ?? '',
    maintenancePage: policy.maintenancePage ?? '',
    rollout: rolloutDraft(policy.rollout)
  }
}

/** Returns an empty check. */
export function newCheck(): CheckDraft {
  return { kind: 'http', ...noTexts, saved: null }
}

const noTexts = { http: '', status: '', contains: '', tcp: '', command: '', log: '', none: '', for: '' }

function checkDraft(saved: Check): CheckDraft {
  const kind = checkKinds.find(name => name in saved) ?? 'http'
  const texts = Object.entries(saved).filter(([name]) => name in noTexts)
  return { kind, ...noTexts, ...Object.fromEntries(texts.map(([name, value]) => [name, String(value)])), saved }
}

/** The keys whose text is their value. */
const plainTexts = [
  'drift',
  'onPostFailure',
  'revertScript',
  'onFailureScript',
  'prune',
  'rollback',
  'exact',
  'fileMode',
  'directoryMode',
  'group',
  'maintenanceFile',
  'maintenancePage'
] as const

/** Returns the policy of the texts, with null for defaults. The server checks it. */
export function policyOfDraft(draft: PolicyDraft): GivenPolicy {
  const { confirmSeconds } = draft
  const protect = draft.protect
    .split('\n')
    .map(line => line.trim())
    .filter(Boolean)
  const texts = plainTexts.map(name => [name, draft[name] === '' ? null : draft[name]])
  return {
    ...Object.fromEntries(texts),
    gate: draft.checks.length === 0 ? null : gateOf(draft),
    confirm: confirmSeconds === '' ? null : { seconds: Number(confirmSeconds) },
    protect: protect.length === 0 ? null : protect,
    pruneByDeployToken: draft.pruneByDeployToken === '' ? null : true,
    forceByDeployToken: draft.forceByDeployToken === '' ? null : true,
    rollout: rolloutOfDraft(draft.rollout)
    // The server refuses other texts than those of the form.
  } as GivenPolicy
}

function gateOf(draft: PolicyDraft): Gate {
  const numbers = gateNumbers.filter(name => draft[name] !== '').map(name => [name, Number(draft[name])])
  // The server adds the numbers that are absent.
  return { after: draft.checks.map(checkOf), onFailure: draft.onFailure, ...Object.fromEntries(numbers) } as Gate
}

function checkOf({ kind, saved, ...texts }: CheckDraft): Check {
  const kept = saved !== null && kind in saved ? saved : {}
  const given = (...names: CheckField[]): object =>
    Object.fromEntries(names.map(name => [name, texts[name] === '' ? undefined : texts[name]]))
  if (kind === 'http') return { ...kept, http: texts.http, ...given('status', 'contains') } as Check
  if (kind === 'tcp') return { tcp: texts.tcp }
  if (kind === 'command') return { ...kept, command: texts.command } as Check
  if (kind === 'pm2') return { pm2: 'online' }
  return { log: texts.log, none: texts.none, for: Number(texts.for) }
}
