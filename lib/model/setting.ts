import { Refusal } from '../base/errors.js'
import type { Instant } from './scalars.js'
import type { EventKey } from './deployment.js'
import { parseUrl } from '../base/text.js'
import type { DiskFigures } from './machine.js'
import type { Project } from './project.js'
import type { Rollout } from './rollout.js'

/** The control that a form shows for a setting. */
export type SettingType = 'text' | 'secret' | 'number' | 'flag' | 'list'

/** The description of a setting, without its value (§2.7). */
export interface SettingDescription {
  key: string
  type: SettingType
  /** Unit of the value, or null. */
  unit: string | null
  default: string
  help: string
  /** The possible items of a list. */
  choices?: readonly string[]
}

/** The two events that are reported (§6.6). */
export const telemetryEvents = ['svc.serve.startup', 'svc.push.start'] as const
/** An event that is reported. */
export type TelemetryEvent = (typeof telemetryEvents)[number]

/** The complete report: no project, no path, no token, no result (§6.6). */
export interface TelemetryReport {
  event: TelemetryEvent
  ts: string
  svcVersion: string
  /** A random id, created once per data directory. */
  instanceId: string
  os: string
  arch: string
}

/** Counts of reports. */
export interface TelemetryCounts {
  /** The number of different instances. */
  instances: number
  startups: number
  pushes: number
}

/** The public figures of a collector (decisions §9). Days are in UTC. */
export interface TelemetryOverview {
  days: number
  totals: TelemetryCounts
  /** One entry per day, the oldest first; the last one is today. */
  daily: Array<TelemetryCounts & { date: string }>
  /** Instances by the version of their latest day, the most frequent first. */
  versions: Array<{ version: string; count: number }>
  /** Instances by the platform of their latest day, the most frequent first. */
  platforms: Array<{ os: string; arch: string; count: number }>
}

/**
 * The message formats of notification targets. `generic` is svc's own JSON, signed by the Standard Webhooks convention.
 */
export const notificationKinds = [
  'generic',
  'slack',
  'teams',
  'feishu',
  'dingtalk',
  'wecom',
  'discord',
  'ntfy',
  'telegram',
  'email'
] as const
/** The message format of a target. */
export type NotificationKind = (typeof notificationKinds)[number]

/** The key of an event that a target can subscribe to. */
export type NotificationEvent = EventKey | IncidentEvent | 'token_expiring' | 'token_locked'

/** The events that a target can subscribe to. */
export const eventKeys: readonly NotificationEvent[] = [
  'deploy_success',
  'deploy_failure',
  'deploy_waiting',
  'recovered',
  'rollout_waiting',
  'rollout_halted',
  'node_lost',
  'drift_found',
  'archives_damaged',
  'disk_low',
  'backup_failed',
  'token_expiring',
  'token_locked'
]

/** The id under which lists show the target that the settings `webhook_…` describe. No stored target has it. */
export const settingsTargetId = 'settings'
/** The maximum number of stored targets. */
export const maxNotificationTargets = 50

/** A target of notifications, as it is stored. */
export interface NotificationTarget {
  id: string
  name: string
  kind: NotificationKind
  /** For a chat service, the path or query of the address contains secrets. */
  url: string
  /** Empty means that messages are not signed. */
  secret: string
  events: NotificationEvent[]
  /** Projects to notify about. Empty means all. */
  projectIds: string[]
  enabled: boolean
  createdAt: string
  updatedAt: string
}

/** A message that is not delivered yet. */
export interface WaitingMessage {
  id: string
  targetId: string
  notification: Record<string, unknown>
  createdAt: string
  attempts: number
  /** When the next attempt is due. */
  nextAt: string
  /** Why the latest attempt failed; null before the first one. */
  problem: string | null
}

/** A message that a receiver did not take. */
export interface NotificationFailure {
  at: Instant
  /** Why, as a clause without the address. */
  reason: string
}

/** What waits for a target. The target of the settings has no queue. */
export interface NotificationQueue {
  /** Number of messages that are not delivered yet. */
  waiting: number
  oldestAt: Instant | null
  /** When the next attempt is due, after one that failed. */
  nextAt: Instant | null
  /** Why the latest attempt failed. */
  problem: string | null
  /** Number of messages dropped since the last delivered one. */
  dropped: number
}

/**
 * A target as the API returns it: without its secret, and without the part of its address that may be secret.
 * @schema NotificationTarget
 */
export interface NotificationTargetView
  extends Pick<NotificationTarget, 'id' | 'name' | 'kind' | 'events' | 'projectIds' | 'enabled'> {
  /** Scheme, host and port of the address. The rest is hidden. */
  address: string
  /** Whether messages are signed with a secret. */
  hasSecret: boolean
  /** Whether the target is defined by the settings. */
  isFromSettings: boolean
  /** Messages that are not delivered yet. The target of the settings has no queue. */
  queue: NotificationQueue
  /** The latest message, if the receiver did not take it and it is not sent again. */
  failure?: NotificationFailure
  /** Null for the target of the settings. */
  createdAt: Instant | null
  updatedAt: Instant | null
}

/** The domains of chat services. A subdomain belongs to its domain. */
export const kindDomains: ReadonlyArray<{ domain: string; kind: NotificationKind }> = [
  { domain: 'feishu.cn', kind: 'feishu' },
  { domain: 'larksuite.com', kind: 'feishu' },
  { domain: 'dingtalk.com', kind: 'dingtalk' },
  { domain: 'hooks.slack.com', kind: 'slack' },
  { domain: 'hooks.slack-gov.com', kind: 'slack' },
  { domain: 'qyapi.weixin.qq.com', kind: 'wecom' },
  { domain: 'logic.azure.com', kind: 'teams' },
  { domain: 'logic.azure.us', kind: 'teams' },
  { domain: 'api.powerplatform.com', kind: 'teams' },
  { domain: 'webhook.office.com', kind: 'teams' },
  { domain: 'discord.com', kind: 'discord' },
  { domain: 'discordapp.com', kind: 'discord' },
  { domain: 'ntfy.sh', kind: 'ntfy' },
  { domain: 'api.telegram.org', kind: 'telegram' }
]

/** Returns the kind that an address suggests. The whole domain must match: `notdingtalk.com` is `generic`. */
export function suggestedKind(hostname: string): NotificationKind {
  const host = hostname.toLowerCase().replace(/\.$/, '')
  return kindDomains.find(({ domain }) => host === domain || host.endsWith(`.${domain}`))?.kind ?? 'generic'
}

/** Returns an address without the parts that may be secret: userinfo, path and query. */
export function maskedAddress(url: string): string {
  try {
    const { protocol, host } = new URL(url)
    return `${protocol}//${host}/…`
  } catch {
    return ''
  }
}

/**
 * Returns why a secret cannot sign notifications, as part of a sentence; null if it can. `whsec_` announces base64
 * (Standard Webhooks): a text that is not base64 would sign with another key than the intended one.
 */
export function signingSecretFault(secret: string): string | null {
  if (!secret.startsWith('whsec_') || /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,4}={0,2})$/.test(secret))
    return null
  return 'the part after "whsec_" must be base64; a secret of another form must not begin with "whsec_"'
}

/**
 * The states of a record that a client expects (`If-Match`); undefined accepts any. For most records, the state is
 * their `updatedAt`.
 */
export interface Seen {
  seen?: readonly string[] | undefined
}

/** Refuses the change of a record whose state is not one that the client expects: 412 `changed_since`. */
export function checkSeen({ seen }: Seen, state: string, what: string): void {
  if (seen === undefined || seen.includes(state)) return
  throw new Refusal('precondition', 'changed_since', `${what} has changed since the state in If-Match. Read it again`)
}

/* The addresses and secrets of notification targets, by kind. Each fault is the end of a sentence. */

/** The address of a target of the kind `email`: a mail server, who sends, and to whom. */
export interface MailAddress {
  url: URL
  from: string
  to: string[]
}

const mailbox = /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]+(\.[\w-]+)*$/

/**
 * Reads `smtps://user@host:465?from=svc@example.org&to=ops@example.org,dev@example.org`. Returns what is wrong with it as the end of a
 * sentence, or the address.
 */
export function readMailAddress(text: string): MailAddress | string {
  const url = parseUrl(text)
  if (url === null) {
    return 'an address like smtps://user@mail.example.org?from=svc@example.org&to=ops@example.org is needed'
  }
  if (url.protocol !== 'smtp:' && url.protocol !== 'smtps:') return 'it must begin with smtp:// or smtps://'
  if (url.hostname === '') return 'the mail server is missing'
  if (!isDecodable(url.username)) return 'the user has a % that encodes nothing'
  if (url.password !== '') return 'it must not contain the password, which belongs into "secret"'
  const from = url.searchParams.get('from') ?? ''
  const to = (url.searchParams.get('to') ?? '').split(',').map(each => each.trim())
  const wrong = [from, ...to].find(each => !mailbox.test(each))
  if (wrong !== undefined) return `"${wrong}" is not a mail address: "from" needs one, "to" one or several with commas`
  return { url, from, to }
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** Returns why a target cannot have this address; null if it can. */
export function targetAddressFault(kind: NotificationKind, text: string): string | null {
  if (kind === 'email') {
    const address = readMailAddress(text)
    return typeof address === 'string' ? address : null
  }
  const url = parseUrl(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return 'an address with http:// or https:// is needed'
  if (kind === 'telegram' && !/^(-?\d+|@\w+)$/.test(url.searchParams.get('chat_id') ?? ''))
    return 'the chat is missing, as in https://api.telegram.org/?chat_id=-1001234'
  if (kind === 'ntfy' && url.pathname.replaceAll('/', '') === '')
    return 'the topic is missing, as in https://ntfy.sh/topic'
  return null
}

/** Returns why a target cannot have this secret; null if it can. */
export function targetSecretFault(kind: NotificationKind, secret: string): string | null {
  if (kind === 'telegram')
    return /^\d+:[\w-]+$/.test(secret) ? null : 'the token of a bot like 123456:ABC-def is needed'
  if (kind === 'ntfy') return /^[\x21-\x7e]*$/.test(secret) ? null : 'an access token of ntfy is needed'
  return kind === 'email' ? null : signingSecretFault(secret)
}

/** The events of rollouts, nodes and the server, each with its trigger in notifications. */
export const incidentTriggers = {
  rollout_waiting: 'rollout',
  rollout_halted: 'rollout',
  node_lost: 'node',
  drift_found: 'verification',
  archives_damaged: 'verification',
  disk_low: 'disk',
  backup_failed: 'backup'
} as const

/** The event of an incident. */
type IncidentEvent = keyof typeof incidentTriggers

/** The project that an incident concerns. */
type About = Pick<Project, 'id' | 'name' | 'deployPath'>

/** Something that happened to a rollout, a node or the server, and that somebody must see to. */
export type Incident =
  | {
      event: 'rollout_waiting' | 'rollout_halted'
      project: About
      rollout: Pick<Rollout, 'id' | 'number' | 'deployId' | 'state' | 'wave' | 'waves' | 'haltedReason'>
    }
  | {
      event: 'node_lost'
      project: null
      node: { id: string; name: string; lastSeenAt: string | null }
      /** The projects that are placed on it. */
      projectIds: string[]
    }
  | {
      event: 'drift_found'
      project: About
      drift: {
        /** Number of files that differ. Null: a node says only that some do. */
        files: number | null
        /** The name of the node; null: the server itself. */
        node: string | null
      }
    }
  | {
      event: 'archives_damaged'
      project: null
      /** Releases that cannot be rolled back to. */
      releases: Array<{ id: string; projectName: string }>
      projectIds: string[]
    }
  | { event: 'disk_low'; project: null; disk: DiskFigures & { path: string } }
  | { event: 'backup_failed'; project: null; backup: { reason: string } }
