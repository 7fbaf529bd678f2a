/* The form of a policy: its texts, and the policy that they stand for. Pure. */
import type { Check, Gate, GivenPolicy, PolicyChanges } from '../../../lib/model/policy.js'
import type { RolloutPolicy } from '../../../lib/model/rollout.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field, type Submission } from '../base/form.js'

/** The kinds of checks. */
export const checkKinds = ['http', 'tcp', 'command', 'pm2', 'log'] as const
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

/* Labels of the form of a policy. All `words` are English and passed to t(). Pure. */

/** One value of a choice. */
export interface Choice {
  value: string
  words: string
}

/** The values of the choices. An empty value means the default. */
export const choices = {
  drift: [
    { value: '', words: 'Warn and replace them (default)' },
    { value: 'refuse', words: 'Refuse the deployment' },
    { value: 'off', words: 'Replace them without a warning' }
  ],
  onPostFailure: [
    { value: '', words: 'Keep the new files (default)' },
    { value: 'revert', words: 'Put the earlier files back' }
  ],
  revertScript: [
    { value: '', words: 'The post-deploy script (default)' },
    { value: 'none', words: 'Nothing' }
  ],
  prune: [
    { value: '', words: 'Keep them (default)' },
    { value: 'managed', words: 'Remove them, unless somebody edited them' }
  ],
  pruneByDeployToken: [
    { value: '', words: 'Only operators and the global deploy token (default)' },
    { value: 'true', words: 'Also deployers and the deploy token of the project' }
  ],
  forceByDeployToken: [
    { value: '', words: 'Only operators and the global deploy token (default)' },
    { value: 'true', words: 'Also deployers and the deploy token of the project' }
  ],
  rollback: [
    { value: '', words: 'Puts the files of an archive over the others (default)' },
    { value: 'exact', words: 'Restores the earlier state exactly' }
  ],
  exact: [
    { value: '', words: 'Deploy all the same (default)' },
    { value: 'required', words: 'Refuse the deployment' }
  ],
  onFailure: [
    { value: 'revert', words: 'Put the earlier files back' },
    { value: 'keep', words: 'Keep the new files' }
  ]
} as const satisfies Record<string, readonly Choice[]>

/** The kinds of checks. */
export const checkKindWords: Record<CheckKind, { words: string }> = {
  http: { words: 'HTTP request' },
  tcp: { words: 'TCP connection' },
  command: { words: 'Command' },
  pm2: { words: 'PM2 application' },
  log: { words: 'Lines of a log' }
}

/** The texts of each kind of check. */
export const checkFields: Record<
  CheckKind,
  ReadonlyArray<{ name: CheckField; words: string; placeholder: string; rows?: number }>
> = {
  http: [
    { name: 'http', words: 'Address', placeholder: 'http://127.0.0.1:3000/up' },
    { name: 'status', words: 'Accepted status codes', placeholder: '200-299' },
    { name: 'contains', words: 'Text that the answer must contain', placeholder: '' }
  ],
  tcp: [{ name: 'tcp', words: 'Host and port', placeholder: '127.0.0.1:5432' }],
  command: [{ name: 'command', words: 'Script that must succeed', placeholder: 'node check.js', rows: 2 }],
  pm2: [],
  log: [
    { name: 'log', words: 'Id of the log file', placeholder: 'lsrc_1a2b3c4d5e6f7a8b' },
    { name: 'none', words: 'Expression that no new line may match', placeholder: '(?i)panic' },
    { name: 'for', words: 'Seconds', placeholder: '30' }
  ]
}

/** The numbers of a gate, with their defaults. */
export const numberWords: Record<(typeof gateNumbers)[number], { words: string; fallback: string }> = {
  interval: { words: 'Seconds between two attempts', fallback: '1' },
  timeout: { words: 'Seconds that one attempt may take', fallback: '5' },
  deadline: { words: 'Seconds until the checks must have passed', fallback: '30' },
  successes: { words: 'Attempts in a row that must pass', fallback: '2' },
  stableFor: { words: 'Seconds for which they must continue to pass', fallback: '0' }
}

/* The form of a policy of rollouts: its texts, and the policy that they stand for. Pure. */

/** A policy of rollouts as texts. An empty text means the default. */
export interface RolloutDraft {
  canary: string
  then: string
  /** `seconds` or `approve`. */
  pause: string
  pauseSeconds: string
  maxFailures: string
  maxUnreachable: string
  onFailure: string
  order: string
}

/** The name of a text. */
export type RolloutField = keyof RolloutDraft

/** The texts of the default. */
export const noRollout: RolloutDraft = {
  canary: '',
  then: '',
  pause: '',
  pauseSeconds: '',
  maxFailures: '',
  maxUnreachable: '',
  onFailure: '',
  order: ''
}

/** Returns the texts of a policy. */
export function rolloutDraft(policy: RolloutPolicy | null | undefined): RolloutDraft {
  if (policy === null || policy === undefined) return noRollout
  const { canary, then, pause, maxFailures, maxUnreachable, onFailure, order } = policy
  return {
    canary: String(canary),
    then,
    pause: pause === 'approve' ? 'approve' : pause === 0 ? '' : 'seconds',
    pauseSeconds: pause === 'approve' || pause === 0 ? '' : String(pause),
    maxFailures: String(maxFailures),
    maxUnreachable,
    onFailure,
    order: order ?? ''
  }
}

/** Returns the policy of the texts, or null for the default. The server checks it, and adds what is absent. */
export function rolloutOfDraft(draft: RolloutDraft): Partial<RolloutPolicy> | null {
  const { canary, then, pause, pauseSeconds, maxFailures, maxUnreachable, onFailure, order } = draft
  const given = {
    ...(canary !== '' && { canary: Number(canary) }),
    ...(then !== '' && { then }),
    ...(pause === 'approve' && { pause }),
    ...(pause === 'seconds' && { pause: Number(pauseSeconds) }),
    ...(maxFailures !== '' && { maxFailures: Number(maxFailures) }),
    ...(maxUnreachable !== '' && { maxUnreachable }),
    ...(onFailure !== '' && { onFailure }),
    ...(order !== '' && { order })
  }
  // The server refuses other texts than those of the form.
  return Object.keys(given).length === 0 ? null : (given as Partial<RolloutPolicy>)
}

/* The fields of a policy of rollouts. All `words` are English and passed to t(). */

const pauses: readonly Choice[] = [
  { value: '', words: 'None (default)' },
  { value: 'seconds', words: 'A time' },
  { value: 'approve', words: 'An approval by hand' }
]
const failures: readonly Choice[] = [
  { value: '', words: 'Halt: no other node begins (default)' },
  { value: 'halt', words: 'Halt: no other node begins' },
  { value: 'revert_wave', words: 'Revert the nodes of the wave' },
  { value: 'revert_all', words: 'Revert all nodes' }
]
const texts: Record<
  Exclude<RolloutField, 'pause' | 'onFailure'>,
  { words: string; fallback: string; type: 'number' | 'text'; isShare?: true }
> = {
  canary: { words: 'Nodes of the first wave', fallback: '1', type: 'number' },
  then: { words: 'Nodes of each further wave', fallback: '25%', type: 'text', isShare: true },
  pauseSeconds: { words: 'Seconds between two waves', fallback: '60', type: 'number' },
  maxFailures: { words: 'Nodes that may fail', fallback: '0', type: 'number' },
  maxUnreachable: { words: 'Nodes that may be unreachable', fallback: '0', type: 'text', isShare: true },
  order: { words: 'Label that sorts the nodes into waves', fallback: 'zone', type: 'text' }
}

/** Where the server finds the texts. */
const places: Partial<Record<RolloutField, string>> = { pauseSeconds: 'policy.rollout.pause' }
const placeOf = (name: RolloutField): string => places[name] ?? `policy.rollout.${name}`

export interface RolloutFieldsNeeds {
  draft: RolloutDraft
  submission: Pick<Submission, 'problemAt'>
  onChange: (patch: Partial<RolloutDraft>) => void
}

/** Returns whether the server refused one of the fields. */
export function hasRolloutProblem(submission: Pick<Submission, 'problemAt'>): boolean {
  return (Object.keys(texts) as RolloutField[]).some(name => submission.problemAt(placeOf(name), '') !== undefined)
}

/** Returns the fields. */
export function rolloutFields({ draft, submission, onChange }: RolloutFieldsNeeds): Template {
  const text = (name: keyof typeof texts): Template =>
    field({
      form: 'rollout',
      name,
      label: t(texts[name].words),
      value: draft[name],
      type: texts[name].type,
      placeholder: texts[name].fallback,
      ...(texts[name].isShare === true && { hint: t('A number or a percentage of all nodes.') }),
      error: submission.problemAt(placeOf(name), texts[name].words),
      onInput: value => onChange({ [name]: value })
    })
  const choice = (name: 'pause' | 'onFailure', label: string, rows: readonly Choice[]): Template => html`
    <div class="field">
      <label for="rollout-${name}">${label}</label>
      <select id="rollout-${name}" @change="${(event: Event) => onChange({ [name]: (event.currentTarget as HTMLSelectElement).value })}">
        ${rows.map(({ value, words }) => html`<option value="${value}" .selected="${value === draft[name]}">${t(words)}</option>`)}
      </select>
    </div>`
  return html`
    <header><h3>${t('Rollout to nodes')}</h3></header>
    <div class="pair">${text('canary')}${text('then')}</div>
    <div class="pair">${choice('pause', t('Between two waves'), pauses)}${draft.pause === 'seconds' ? text('pauseSeconds') : null}</div>
    <div class="pair">${text('maxFailures')}${text('maxUnreachable')}</div>
    <div class="pair">${choice('onFailure', t('If more nodes fail or are unreachable'), failures)}${text('order')}</div>`
}
