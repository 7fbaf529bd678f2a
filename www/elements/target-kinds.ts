import type { EventKey } from '../../lib/model/deployment.js'
import type { NotificationKind } from '../../lib/model/notification-target.js'

/* What the kinds and events of notification targets are called. Pure. */

/** `words` is English, and said by t(); `secret`: what the kind signs its messages with, as its service calls it. */
export const kindRows: ReadonlyArray<{ kind: NotificationKind; words: string; secret: boolean }> = [
  { kind: 'generic', words: 'JSON', secret: true },
  { kind: 'slack', words: 'Slack', secret: false },
  { kind: 'teams', words: 'Microsoft Teams', secret: false },
  { kind: 'feishu', words: 'Feishu or Lark', secret: true },
  { kind: 'dingtalk', words: 'DingTalk', secret: true },
  { kind: 'wecom', words: 'WeCom', secret: false }
]

export const eventRows: ReadonlyArray<{ event: EventKey; words: string }> = [
  { event: 'deploy_success', words: 'Succeeded' },
  { event: 'deploy_failure', words: 'Failed' }
]

export function kindRow(kind: NotificationKind): (typeof kindRows)[number] {
  return kindRows.find(row => row.kind === kind) ?? (kindRows[0] as (typeof kindRows)[number])
}

/** The kind that an address suggests; null: it is not an address yet. */
export function kindOfAddress(
  address: string, domains: ReadonlyArray<{ domain: string; kind: NotificationKind }>
): NotificationKind | null {
  const [, host] = /^https?:\/\/(?:[^/?#@]*@)?([^/?#:]+)/i.exec(address.trim()) ?? []
  if (host === undefined) return null
  const name = host.toLowerCase().replace(/\.$/, '')
  return domains.find(({ domain }) => name === domain || name.endsWith(`.${domain}`))?.kind ?? 'generic'
}
