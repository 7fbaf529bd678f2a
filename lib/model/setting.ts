import { Refusal } from '../base/errors.js'
import type { Instant } from './scalars.js'
import type { EventKey } from './deployment.js'
import type { IncidentEvent } from './incident.js'

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
