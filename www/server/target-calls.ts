import type { EventKey } from '../../lib/model/deployment.js'
import type { NotificationKind, NotificationTargetView } from '../../lib/model/notification-target.js'
import type { WebhookTest } from './admin-calls.js'
import { ifMatch } from './client.js'
import type { Client } from './client.js'

/** What is written of a target; what is left out stays as it is. */
export interface TargetFields {
  name?: string
  kind?: NotificationKind
  url?: string
  secret?: string
  events?: EventKey[]
  projectIds?: string[]
  enabled?: boolean
}

export interface TargetList {
  items: NotificationTargetView[]
  /** Which kind an address suggests. */
  domains: Array<{ domain: string; kind: NotificationKind }>
}

/** Notification targets. Each rejects as Client.ask does. */
export interface TargetCalls {
  list(signal?: AbortSignal): Promise<TargetList>
  create(fields: TargetFields): Promise<void>
  /** `tag`: the `updatedAt` of the state that is changed; another state is refused with `changed_since`. */
  update(id: string, fields: TargetFields, tag: string | null): Promise<void>
  remove(id: string): Promise<void>
  test(id: string, signal?: AbortSignal): Promise<WebhookTest>
  /** All projects, to choose from. */
  projects(signal?: AbortSignal): Promise<Array<{ id: string; name: string }>>
}

export function createTargetCalls({ ask }: Pick<Client, 'ask'>): TargetCalls {
  const path = (id: string): string => `api/notification-targets/${encodeURIComponent(id)}`
  return {
    list: signal => ask('GET', 'api/notification-targets', { signal }),
    async create(body) {
      await ask('POST', 'api/notification-targets', { body })
    },
    async update(id, body, tag) {
      await ask('PUT', path(id), { body, headers: ifMatch(tag) })
    },
    async remove(id) {
      await ask('DELETE', path(id))
    },
    test: (id, signal) => ask('POST', `${path(id)}/test`, { signal }),
    projects: signal => ask('GET', 'api/projects', { signal })
  }
}
