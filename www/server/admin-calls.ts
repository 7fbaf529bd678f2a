import type { AuditEntry } from '../../lib/model/audit.js'
import type { HealthDetail } from '../../lib/model/health.js'
import type { Label, LabelColor, LabelKind } from '../../lib/model/label.js'
import type { Pm2App } from '../../lib/model/pm2.js'
import type { SettingDescription } from '../../lib/model/setting.js'
import type { StorageUsage } from '../../lib/model/storage.js'
import type { Finding } from '../../lib/model/transfer.js'
import type { ListedSession } from '../../lib/model/session.js'
import { ifMatch } from './client.js'
import type { Client } from './client.js'

export interface AuditQuery {
  action?: string | undefined
  projectId?: string | undefined
  limit: number
  /** The id of the last entry of the page before. */
  before?: string | undefined
}

/** What is to be cleaned; `dryRun` only says what would go. */
export interface CleanRequest {
  dryRun: boolean
  projectId?: string
  /** Files that no record names go, too. */
  unrecorded?: boolean
  keep: number
}

/** What went, or would go (decisions §7). */
export interface CleanResult {
  removed: {
    archives: Array<{ deployId: string; projectId: string; bytes: number }>
    temporaryFiles: Array<{ name: string; bytes: number }>
    unrecordedFiles: Array<{ name: string; bytes: number }>
  }
  /** Files that no record names, and that stay. */
  unrecordedLeft: Array<{ name: string; bytes: number }>
  freedBytes: number
}

/** How a test message fared. */
export interface WebhookTest {
  success: boolean
  statusCode: number | null
  durationMs: number
  attempts: number
  error?: string
}

export interface SettingsState {
  values: Record<string, string>
  tag: string | null
}

export interface LabelFields {
  name?: string
  color?: LabelColor
  sortOrder?: number
}

/** The API of the rooms `system` and `settings`. Each rejects as Client.ask does. */
export interface AdminCalls {
  healthDetail(signal?: AbortSignal): Promise<HealthDetail>
  /** Null: there is no PM2 that answers. */
  pm2Apps(signal?: AbortSignal): Promise<Pm2App[] | null>
  storage(signal?: AbortSignal): Promise<StorageUsage>
  clean(request: CleanRequest): Promise<CleanResult>
  audit(query: AuditQuery, signal?: AbortSignal): Promise<AuditEntry[]>
  /** The values, and the tag of their state. */
  settings(signal?: AbortSignal): Promise<SettingsState>
  settingsSchema(signal?: AbortSignal): Promise<SettingDescription[]>
  /** Of another state than `tag` names, a change is refused with `changed_since`. */
  saveSettings(patch: Record<string, string>, tag: string | null): Promise<void>
  testWebhook(signal?: AbortSignal): Promise<WebhookTest>
  changeToken(tokens: { oldToken: string; newToken: string }): Promise<void>
  sessions(signal?: AbortSignal): Promise<ListedSession[]>
  endSession(id: string): Promise<void>
  labels(kind: LabelKind, signal?: AbortSignal): Promise<Label[]>
  createLabel(kind: LabelKind, fields: LabelFields & { name: string }): Promise<Label>
  /** `tag`: the `updatedAt` of the state that is changed; null: any. */
  updateLabel(kind: LabelKind, id: string, fields: LabelFields, tag: string | null): Promise<Label>
  deleteLabel(kind: LabelKind, id: string): Promise<void>
  verify(signal?: AbortSignal): Promise<Finding[]>
}

const paths: Record<LabelKind, string> = { category: 'api/categories', tag: 'api/tags' }

/** The paths of these rooms in one place. */
export function createAdminCalls({ ask, send }: Client): AdminCalls {
  const segment = encodeURIComponent
  return {
    // 503 is the answer of an unhealthy server, in the same shape (§4.8).
    healthDetail: signal => ask('GET', 'api/health/detail', { alsoGood: 503, signal }),
    async pm2Apps(signal) {
      const { available } = await ask<{ available: boolean }>('GET', 'api/pm2/available', { signal })
      if (!available) return null
      return (await ask<{ apps: Pm2App[] }>('GET', 'api/pm2/apps', { signal })).apps
    },
    storage: signal => ask('GET', 'api/storage', { signal }),
    clean: body => ask('POST', 'api/storage/clean', { body }),
    async audit(query, signal) {
      const sought = new URLSearchParams()
      for (const [name, value] of Object.entries(query)) if (value !== undefined) sought.set(name, String(value))
      return (await ask<{ items: AuditEntry[] }>('GET', `api/audit?${sought}`, { signal })).items
    },
    async settings(signal) {
      const response = await send('GET', 'api/settings', { signal })
      const tag = response.headers.get('etag')?.replace(/^W\//, '').replaceAll('"', '') ?? null
      return { values: await response.json(), tag }
    },
    async settingsSchema(signal) {
      return (await ask<{ settings: SettingDescription[] }>('GET', 'api/settings/schema', { signal })).settings
    },
    async saveSettings(body, tag) {
      await ask('PUT', 'api/settings', { body, headers: ifMatch(tag) })
    },
    testWebhook: signal => ask('POST', 'api/settings/webhook-test', { signal }),
    async changeToken({ oldToken, newToken }) {
      await ask('POST', 'api/settings/token', { body: { oldToken, newToken } })
    },
    async sessions(signal) {
      return (await ask<{ sessions: ListedSession[] }>('GET', 'api/sessions', { signal })).sessions
    },
    async endSession(id) {
      await ask('DELETE', `api/sessions/${segment(id)}`)
    },
    labels: (kind, signal) => ask('GET', paths[kind], { signal }),
    async createLabel(kind, body) {
      return (await ask<Record<LabelKind, Label>>('POST', paths[kind], { body }))[kind]
    },
    async updateLabel(kind, id, body, tag) {
      return (await ask<Record<LabelKind, Label>>('PUT', `${paths[kind]}/${segment(id)}`, { body, headers: ifMatch(tag) }))[kind]
    },
    async deleteLabel(kind, id) {
      await ask('DELETE', `${paths[kind]}/${segment(id)}`)
    },
    async verify(signal) {
      return (await ask<{ findings: Finding[] }>('GET', 'api/migration/verify', { signal })).findings
    }
  }
}
