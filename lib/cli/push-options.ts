import { messageOf, Refusal } from '../base/errors.js'
import { pause } from '../base/clock.js'
import { confirmLimits } from '../model/policy.js'
import { rolloutFailureModes, type RolloutPolicy } from '../model/rollout.js'
import type { UploadPermit } from '../model/access.js'
import { type PruneMode, pruneWishes } from '../model/plan.js'
import { type Context, number, option, type Options, type OptionTable, toggle, usage } from './command.js'
import { durationOption } from './common-options.js'

/** Options of a push that set keys of the policy of rollouts, for this push only. */
export const rolloutOptions = {
  canary: number('n', 'number of nodes of the first wave', { minimum: 1 }),
  then: option('n|n%', 'size of each further wave: a number, or a percentage of all nodes'),
  pause: option('time|approve', 'time between two waves, like 60s, or "approve": wait for an approval'),
  'max-failures': number('n', 'number of nodes that may fail; one more halts the rollout'),
  'max-unreachable': option('n|n%', 'number or percentage of nodes that may be unreachable'),
  'on-failure': option('mode', 'when too many nodes fail: halt, or put back the wave or all nodes', {
    choices: rolloutFailureModes
  }),
  order: option('label', 'label by which nodes are sorted into waves; default: their names')
} as const satisfies OptionTable

/** The values of these options. */
type RolloutOptions = Options<typeof rolloutOptions>

/** Returns the flag of a key of the policy. */
function flagOf(key: string): string {
  return `--${key.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
}

/** Returns the keys that the options set; undefined: none is given. Throws a usage error. */
export async function readRolloutOptions(options: RolloutOptions): Promise<Partial<RolloutPolicy> | undefined> {
  const given = {
    canary: options.canary,
    then: options.then,
    pause: options.pause === undefined ? undefined : secondsOf(options.pause),
    maxFailures: options['max-failures'],
    maxUnreachable: options['max-unreachable'],
    onFailure: options['on-failure'],
    order: options.order
  }
  const keys = Object.entries(given).filter(([, value]) => value !== undefined)
  if (keys.length === 0) return undefined
  const { givenRolloutPolicy } = await import('../model/rollout-policy.js')
  try {
    return givenRolloutPolicy(Object.fromEntries(keys), 'rollout')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const [key = ''] = /(?<![A-Za-z])[A-Za-z]+$/.exec(error.field ?? '') ?? []
    const flag = flagOf(key)
    const fault = error.message.replace(/^.*?(?: is not valid: | is )/, '')
    throw usage(flag, `${flag} is not valid: ${fault}`)
  }
}

function secondsOf(text: string): number | 'approve' {
  return text === 'approve' ? text : Math.round(durationOption('--pause', text) / 1000)
}

/** Refuses options about waves for a project without nodes: the server would ignore them. */
export function requirePlacement(given: Partial<RolloutPolicy> | undefined, permit: UploadPermit | null): void {
  if (given === undefined || permit?.rollout) return
  const names = Object.keys(given).map(flagOf)
  const sentence = `${names.join(', ')}: the project is not placed on nodes, so there is no rollout. Nothing was deployed`
  throw new Refusal('invalid', 'project_not_placed', sentence)
}

/** Option of what may wait until it can begin. */
export const waitOption = {
  wait: option('time', 'wait for a lock, a window or other deployments before anything is sent; without a value: 10m', {
    bare: '10m'
  })
} as const

/** Option of what deploys outside of the windows of its project. */
export const overrideOption = {
  override: option('reason', 'deploy outside of the windows of the project; needs the role operator')
} as const

/** What a deployment asks for instead of the policy of the project. */
export interface Wishes {
  prune: Exclude<PruneMode, 'off'> | undefined
  force: boolean
  /** Why it begins outside of the windows of the project. */
  override?: string | undefined
  /** When it begins. */
  startAt?: string | undefined
}

/** What `--prune` and `--force` are without options. */
const noWishes: Wishes = { prune: undefined, force: false }

const pruneChoices = pruneWishes.filter(wish => wish !== 'off')

/** Options of commands that plan. */
export const wishOptions = {
  prune: option(
    'force',
    'remove files of earlier deployments that are missing now; "force" removes however many they are, "foreign" also those that svc did not put there',
    { choices: pruneChoices, bare: 'managed' }
  ),
  force: toggle('replace files that were edited on the server, although the policy refuses that'),
  index: toggle('read every file, also those that have not changed since the last push', { default: true }),
  ...overrideOption
} as const

/** Refuses (usage) with --plan what the plan has decided, and a dry run, which would make another plan. */
export function refuseWithPlan(options: {
  plan: string | undefined
  prune: string | undefined
  force: boolean
  'dry-run': boolean
}): void {
  if (options.plan === undefined) return
  if (options.prune !== undefined || options.force)
    throw usage('--plan', '--plan cannot be combined with --prune and --force: give them to "svc plan --save"')
  if (options['dry-run'])
    throw usage('--plan', '--plan and --dry-run exclude each other: the plan says what the push would do')
}

/** Returns what the options ask for. */
export function wishesOf({
  prune,
  force,
  override,
  startAt
}: {
  prune: string | undefined
  force: boolean
  override: string | undefined
  startAt?: string | undefined
}): Wishes {
  const chosen = prune === undefined ? undefined : pruneChoices.find(choice => choice === prune)
  return { ...noWishes, ...(chosen !== undefined && { prune: chosen }), force, override, startAt }
}

/** The option of commands that write the receipt of what they did. */
export const receiptOption = { receipt: option('file', 'write the receipt of the deployment to this file') } as const

/** What a command cannot do for a deployment that begins later, because it does not wait for it, and why. */
const lateWishes = {
  receipt: 'the receipt is made at the end of the deployment',
  'check-from-here': 'the push does not wait until the files are in place. Confirm with "svc confirm"'
} as const

/** Refuses (usage) with --at what the command would have to wait for. */
export function refuseLate(
  options: { at: string | undefined } & { [W in keyof typeof lateWishes]?: string | undefined }
): void {
  if (options.at === undefined) return
  for (const [wish, why] of Object.entries(lateWishes))
    if (options[wish as keyof typeof lateWishes] !== undefined)
      throw usage(`--${wish}`, `--${wish} and --at exclude each other: ${why}`)
}

/** The option of commands that are witnesses. */
export const witnessOption = {
  witness: option('mode', 'what to do if the audit log of the server was rewritten; strict: exit code 1', {
    choices: ['warn', 'strict', 'off'],
    default: 'warn'
  })
} as const

/** Option of what begins later. */
export const atOption = {
  at: option('time', 'begin at this time of this machine, like 02:00 or 2026-12-20T02:00; at most 30 days ahead')
} as const

/**
 * Reads --at: the next such time of day, or a date with a time. Returns it as ISO text. Throws a usage error. On the days on
 * which the clock is changed, a local time comes twice, and the next one is meant; or it is left out: a time of day is then the
 * end of what is left out, and a date with such a time is refused.
 */
export function readAt(text: string | undefined, nowMs: number): string | undefined {
  if (text === undefined) return undefined
  const [, hour, minute] = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(text) ?? []
  if (hour !== undefined) return nextTimeOfDay(Number(hour), Number(minute), nowMs)
  const parts = /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d))?(Z|[+-]\d\d:?\d\d)?$/i.exec(text)
  const [year, month, day, hours, minutes, seconds] = (parts ?? []).slice(1, 7).map(part => Number(part ?? 0))
  const local = [year, month, day, hours, minutes, seconds] as LocalTime
  const isDate = parts !== null && !Number.isNaN(Date.parse(text.replace(' ', 'T'))) && isInCalendar(local)
  if (!isDate) throw usage('--at', `--at cannot be "${text}": it must be like 02:00 or 2026-12-20T02:00`)
  const moments =
    parts[7] === undefined ? momentsOf(local) : { isLeftOut: false, at: [Date.parse(text.replace(' ', 'T'))] }
  if (moments.isLeftOut) throw usage('--at', `--at cannot be "${text}": the clock is set forward over that time`)
  const ms = moments.at.find(each => each > nowMs)
  if (ms === undefined) throw usage('--at', `--at cannot be "${text}": that time has passed`)
  return new Date(ms).toISOString()
}

/** Year, month from 1, day, hours, minutes and seconds. */
type LocalTime = [number, number, number, number, number, number]

/** Date takes 31 June for 1 July. */
function isInCalendar([year, month, day]: LocalTime): boolean {
  return new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day && month >= 1 && month <= 12
}

function nextTimeOfDay(hour: number, minute: number, nowMs: number): string {
  const today = new Date(nowMs)
  for (let day = today.getDate(); ; day++) {
    const { at } = momentsOf([today.getFullYear(), today.getMonth() + 1, day, hour, minute, 0])
    const ms = at.find(each => each > nowMs)
    if (ms !== undefined) return new Date(ms).toISOString()
  }
}

const quarterMs = 15 * 60_000

/** Returns when a local time comes: twice, if the clock is set back over it; at the end of what is left out, if it is. */
function momentsOf([year, month, day, ...time]: LocalTime): { at: number[]; isLeftOut: boolean } {
  const first = new Date(year, month - 1, day, ...time)
  const offset = (ms: number): number => new Date(ms).getTimezoneOffset()
  const isSame = (date: Date): boolean => date.getHours() === time[0] % 24 && date.getMinutes() === time[1]
  let ms = first.getTime()
  if (!isSame(first)) {
    const after = offset(ms)
    ms = Math.floor(ms / quarterMs) * quarterMs
    while (offset(ms - quarterMs) === after) ms -= quarterMs
    return { at: [ms], isLeftOut: true }
  }
  const dayMs = 24 * 60 * 60_000
  const second = new Date(ms + (offset(ms + dayMs) - offset(ms - dayMs)) * 60_000)
  return { at: second.getTime() > ms && isSame(second) ? [ms, second.getTime()] : [ms], isLeftOut: false }
}

/** Returns a time in the zone of this machine, and in UTC. */
export function bothZones(at: string): string {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
  const local = new Date(at).toLocaleString('sv-SE').slice(0, 16)
  return `${local} (${zone}), ${at.slice(0, 16).replace('T', ' ')} UTC`
}

/** Says when something begins that is planned or asked about. */
export function noteStart({ output }: Pick<Context, 'output'>, startAt: string | undefined): void {
  if (startAt !== undefined) output.note(`It begins at ${bothZones(startAt)}`)
}

/** Refuses --at if the server is too old for it: an older server ignores the field, and would deploy at once. */
export function requireStartFeature(startAt: string | undefined, permit: UploadPermit | null): void {
  if (startAt === undefined || permit?.features?.includes('startAt') === true) return
  throw new Refusal('invalid', 'server_too_old', 'The server is too old for --at. Update it. Nothing was deployed')
}

/** Options of a push that must be confirmed. */
export const confirmOptions = {
  confirm: option(
    'time',
    'put the earlier files back unless the deployment is confirmed within this time, like 90s or 10m'
  ),
  'check-from-here': option('url', 'confirm by itself as soon as this URL answers with a 2xx status; needs --confirm')
} as const

/** How a push is confirmed; both are null without --confirm. */
export interface ConfirmRequest {
  seconds: number | null
  /** The URL to check from here; null: somebody else confirms. */
  checkUrl: URL | null
}

const unitSeconds: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600 }

/** Reads the options. Throws a usage error. */
export function readConfirmOptions(confirm: string | undefined, checkFromHere: string | undefined): ConfirmRequest {
  if (confirm === undefined) {
    if (checkFromHere !== undefined) throw usage('--check-from-here', '--check-from-here needs --confirm')
    return { seconds: null, checkUrl: null }
  }
  const [, amount = '', unit = ''] = /^(\d{1,6})([smh]?)$/.exec(confirm) ?? []
  const seconds = Number(amount) * (unitSeconds[unit] as number)
  const { min, max } = confirmLimits
  if (amount === '' || seconds < min || seconds > max)
    throw usage('--confirm', `--confirm cannot be "${confirm}": it must be a time from ${min}s to ${max / 3600}h`)
  return { seconds, checkUrl: checkFromHere === undefined ? null : readUrl(checkFromHere) }
}

function readUrl(text: string): URL {
  try {
    const url = new URL(text)
    if (url.protocol === 'http:' || url.protocol === 'https:') return url
  } catch {
    // Reported below.
  }
  throw usage('--check-from-here', `--check-from-here cannot be "${text}": it must be an http or https URL`)
}

/**
 * Refuses --confirm if the server is too old for it: an older server ignores the field, and would deploy without
 * waiting for a confirmation.
 */
export function requireConfirmFeature({ seconds }: ConfirmRequest, permit: UploadPermit | null): void {
  if (seconds === null || permit?.features?.includes('confirm') === true) return
  throw new Refusal(
    'invalid',
    'server_too_old',
    'The server is too old for --confirm. Update it, or push without --confirm'
  )
}

/** A deployment that waits to be confirmed. */
export interface Waiting {
  deployId: string
  /** When the earlier files are put back. */
  until: string
}

/** How a deployment is checked and confirmed. */
interface CheckOptions {
  /** Confirms the deployment. */
  confirm(): Promise<unknown>
  url: URL
  note(line: string): void
  signal: AbortSignal
}

const intervalMs = 1_000
const attemptMs = 5_000

/**
 * Confirms a deployment as soon as `url` answers with a 2xx status from here. Does nothing more when the window has
 * ended: the server then puts the earlier files back. Never rejects.
 */
export async function checkFromHere(
  { until }: Pick<Waiting, 'until'>,
  { confirm, url, note, signal }: CheckOptions
): Promise<void> {
  const { probeHttp } = await import('../http/outgoing/probe.js')
  const endMs = performance.now() + Date.parse(until) - Date.now()
  let last = ''
  try {
    while (performance.now() < endMs) {
      const probe = { url: url.href, hosts: [url.hostname], readsBody: false, timeoutMs: attemptMs, signal }
      const answer = await probeHttp(probe)
      const isGood = 'status' in answer && answer.status >= 200 && answer.status <= 299
      const message = 'status' in answer ? String(answer.status) : answer.error
      if (message !== last) note(`${url.href}: ${message}`)
      last = message
      if (isGood) {
        await confirm()
        return
      }
      await pause(intervalMs, signal)
    }
  } catch (error) {
    if (!signal.aborted) note(`Cannot confirm the deployment: ${messageOf(error)}`)
  }
}
