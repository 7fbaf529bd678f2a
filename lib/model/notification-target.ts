import type { EventKey } from './deployment.js'

/** What a target understands. `generic` is svc's own JSON, signed by the Standard Webhooks convention. */
export const notificationKinds = ['generic', 'slack', 'teams', 'feishu', 'dingtalk', 'wecom'] as const
export type NotificationKind = (typeof notificationKinds)[number]

export const eventKeys: readonly EventKey[] = ['deploy_success', 'deploy_failure']

/** The id under which lists show the target that the settings `webhook_…` describe. No stored target has it. */
export const settingsTargetId = 'settings'
/** The maximum number of stored targets. */
export const maxNotificationTargets = 50

/** Where notifications go, as it is stored. */
export interface NotificationTarget {
  id: string
  name: string
  kind: NotificationKind
  /** Contains secrets in its path or query, if the kind is a chat service. */
  url: string
  /** Empty: messages are not signed. */
  secret: string
  events: EventKey[]
  /** Empty: all projects. */
  projectIds: string[]
  enabled: boolean
  createdAt: string
  updatedAt: string
}

/** A target as the API answers it: without its secret, and without the part of its address that may be one. */
export interface NotificationTargetView extends Pick<NotificationTarget, 'id' | 'name' | 'kind' | 'events' | 'projectIds' | 'enabled'> {
  /** Scheme, host and port; what follows is shown as `/…`. Empty if the settings have no address. */
  address: string
  hasSecret: boolean
  /** Whether the target comes from the settings `webhook_…`, where it is edited. */
  isFromSettings: boolean
  /** Null for the target of the settings. */
  createdAt: string | null
  updatedAt: string | null
}

/** Chat services by the domain of their addresses; a subdomain belongs to its domain. */
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
  { domain: 'webhook.office.com', kind: 'teams' }
]

/** The kind that an address suggests: `notdingtalk.com` is any host. */
export function suggestedKind(hostname: string): NotificationKind {
  const host = hostname.toLowerCase().replace(/\.$/, '')
  return kindDomains.find(({ domain }) => host === domain || host.endsWith(`.${domain}`))?.kind ?? 'generic'
}

/** An address without what may be secret: userinfo, path and query. */
export function maskedAddress(url: string): string {
  try {
    const { protocol, host } = new URL(url)
    return `${protocol}//${host}/…`
  } catch {
    return ''
  }
}
