import type { NotificationEvent, NotificationKind } from '../../../lib/model/setting.js'

/* Labels of the kinds and events of notification targets. Pure. */

/** `words` is English and passed to t(). `secret`: the kind signs its messages with a secret. */
export const kindRows: ReadonlyArray<{ kind: NotificationKind; words: string; secret: boolean }> = [
  { kind: 'generic', words: 'JSON', secret: true },
  { kind: 'slack', words: 'Slack', secret: false },
  { kind: 'teams', words: 'Microsoft Teams', secret: false },
  { kind: 'feishu', words: 'Feishu or Lark', secret: true },
  { kind: 'dingtalk', words: 'DingTalk', secret: true },
  { kind: 'wecom', words: 'WeCom', secret: false }
]

/** The events of notifications, with their labels. */
export const eventRows: ReadonlyArray<{ event: NotificationEvent; words: string }> = [
  { event: 'deploy_success', words: 'Succeeded' },
  { event: 'deploy_failure', words: 'Failed' },
  { event: 'token_expiring', words: 'A token expires soon' },
  { event: 'token_locked', words: 'Wrong codes have locked a token' }
]

/** Returns the row of a kind. */
export function kindRow(kind: NotificationKind): (typeof kindRows)[number] {
  return kindRows.find(row => row.kind === kind) ?? (kindRows[0] as (typeof kindRows)[number])
}

/** Returns the kind that an address suggests, or null if it is not an address yet. */
export function kindOfAddress(
  address: string,
  domains: ReadonlyArray<{ domain: string; kind: NotificationKind }>
): NotificationKind | null {
  const [, host] = /^https?:\/\/(?:[^/?#@]*@)?([^/?#:]+)/i.exec(address.trim()) ?? []
  if (host === undefined) return null
  const name = host.toLowerCase().replace(/\.$/, '')
  return domains.find(({ domain }) => name === domain || name.endsWith(`.${domain}`))?.kind ?? 'generic'
}
