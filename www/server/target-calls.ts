import type {
  NotificationEvent,
  NotificationKind,
  NotificationTargetView
} from '../../lib/model/notification-target.js'
import type { WebhookTest } from './admin-calls.js'
import { ifMatch, type Client } from './client.js'

/** The fields of a target to write. Missing fields keep their value. */
export interface TargetFields {
  name?: string
  kind?: NotificationKind
  url?: string
  secret?: string
  events?: NotificationEvent[]
  projectIds?: string[]
  enabled?: boolean
}

/** All targets, and what the form for a new one needs. */
export interface TargetList {
  items: NotificationTargetView[]
  /** The kinds that domains suggest. */
  domains: Array<{ domain: string; kind: NotificationKind }>
}

/** The API of notification targets. Each function rejects as `Client.ask` does. */
export interface TargetCalls {
  list(signal?: AbortSignal): Promise<TargetList>
  create(fields: TargetFields): Promise<void>
  /** Updates a target. The server refuses with `changed_since` if `tag` is not the `updatedAt` of the current state. */
  update(id: string, fields: TargetFields, tag: string | null): Promise<void>
  remove(id: string): Promise<void>
  test(id: string, signal?: AbortSignal): Promise<WebhookTest>
  /** Returns all projects. */
  projects(signal?: AbortSignal): Promise<Array<{ id: string; name: string }>>
}

/** Creates the calls. */
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
