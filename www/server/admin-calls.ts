import type { AuditCheckpoint, AuditEntry, ConsistencyProof } from '../../lib/model/audit.js'
import type { HealthDetail } from '../../lib/model/health.js'
import type { Label, LabelColor, LabelKind } from '../../lib/model/label.js'
import type { Pm2Apps } from '../../lib/model/pm2.js'
import type { SettingDescription } from '../../lib/model/setting.js'
import type { StorageUsage } from '../../lib/model/storage.js'
import type { Finding } from '../../lib/model/transfer.js'
import type { ListedSession } from '../../lib/model/session.js'
import { createAuditWitness, type AuditWitness } from '../state/audit-witness.js'
import type { TokenStorage } from '../state/session.js'
import { ifMatch, Refused, type Client } from './client.js'

/** A page of the audit log. */
export interface AuditQuery {
  action?: string | undefined
  projectId?: string | undefined
  /** The named token that the entries are of. */
  tokenId?: string | undefined
  limit: number
  /** Id of the last entry of the previous page. */
  before?: string | undefined
}

/** A request to remove files. `dryRun` only reports what would be removed. */
export interface CleanRequest {
  dryRun: boolean
  projectId?: string
  /** Also removes files of deployments without a record. */
  unrecorded?: boolean
  keep: number
}

/** The removed files, or those that would be removed. */
export interface CleanResult {
  removed: {
    archives: Array<{ deployId: string; projectId: string; bytes: number }>
    temporaryFiles: Array<{ name: string; bytes: number }>
    unrecordedFiles: Array<{ name: string; bytes: number }>
  }
  /** Remaining files of deployments without a record. */
  unrecordedLeft: Array<{ name: string; bytes: number }>
  freedBytes: number
}

/** The result of a test message. */
export interface WebhookTest {
  success: boolean
  statusCode: number | null
  durationMs: number
  attempts: number
  error?: string
}

/** The settings and the tag of their state. */
export interface SettingsState {
  values: Record<string, string>
  tag: string | null
}

/** The fields of a label. */
export interface LabelFields {
  name?: string
  color?: LabelColor
  sortOrder?: number
}

/** The API of the pages for administrators. Each function rejects as `Client.ask` does. */
export interface AdminCalls {
  healthDetail(signal?: AbortSignal): Promise<HealthDetail>
  pm2Apps(signal?: AbortSignal): Promise<Pm2Apps>
  storage(signal?: AbortSignal): Promise<StorageUsage>
  clean(request: CleanRequest): Promise<CleanResult>
  audit(query: AuditQuery, signal?: AbortSignal): Promise<AuditEntry[]>
  /** Creates the witness of the audit log. What it saw is in the storage of the browser. */
  auditWitness(storage?: TokenStorage): AuditWitness
  /** Returns the settings and the tag of their state. */
  settings(signal?: AbortSignal): Promise<SettingsState>
  settingsSchema(signal?: AbortSignal): Promise<SettingDescription[]>
  /** Saves settings. The server refuses with `changed_since` if the state has another tag. */
  saveSettings(patch: Record<string, string>, tag: string | null): Promise<void>
  testWebhook(signal?: AbortSignal): Promise<WebhookTest>
  changeToken(tokens: { oldToken: string; newToken: string }): Promise<void>
  sessions(signal?: AbortSignal): Promise<ListedSession[]>
  endSession(id: string): Promise<void>
  labels(kind: LabelKind, signal?: AbortSignal): Promise<Label[]>
  createLabel(kind: LabelKind, fields: LabelFields & { name: string }): Promise<Label>
  /** Updates a label. `tag` is the `updatedAt` of the state to change; null accepts any state. */
  updateLabel(kind: LabelKind, id: string, change: { fields: LabelFields; tag: string | null }): Promise<Label>
  deleteLabel(kind: LabelKind, id: string): Promise<void>
  verify(signal?: AbortSignal): Promise<Finding[]>
}

/** Returns null for what the server does not have, or cannot prove any more. */
function orNull(error: unknown): null {
  if (error instanceof Refused && (error.status === 404 || error.status === 409)) return null
  throw error
}

const paths: Record<LabelKind, string> = { category: 'api/categories', tag: 'api/tags' }

/** Creates the calls. */
export function createAdminCalls({ address, ask, send, ensureProven }: Client): AdminCalls {
  const segment = encodeURIComponent
  return {
    // An unhealthy server answers 503 in the same shape (§4.8).
    healthDetail: signal => ask('GET', 'api/health/detail', { alsoGood: 503, signal }),
    pm2Apps: signal => ask('GET', 'api/pm2/apps', { signal }),
    storage: signal => ask('GET', 'api/storage', { signal }),
    clean: body => ask('POST', 'api/storage/clean', { body }),
    async audit(query, signal) {
      const sought = new URLSearchParams()
      for (const [name, value] of Object.entries(query)) if (value !== undefined) sought.set(name, String(value))
      return (await ask<{ items: AuditEntry[] }>('GET', `api/audit?${sought}`, { signal })).items
    },
    auditWitness: (storage = localStorage) =>
      createAuditWitness({
        base: address(''),
        storage,
        checkpoint: () => ask<AuditCheckpoint>('GET', 'api/audit/checkpoint').catch(orNull),
        proof: (from, to) => ask<ConsistencyProof>('GET', `api/audit/proof?from=${from}&to=${to}`).catch(orNull)
      }),
    async settings(signal) {
      // Without a proof, the answer has no secrets.
      await ensureProven()
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
    async updateLabel(kind, id, { fields: body, tag }) {
      return (
        await ask<Record<LabelKind, Label>>('PUT', `${paths[kind]}/${segment(id)}`, { body, headers: ifMatch(tag) })
      )[kind]
    },
    async deleteLabel(kind, id) {
      await ask('DELETE', `${paths[kind]}/${segment(id)}`)
    },
    async verify(signal) {
      return (await ask<{ findings: Finding[] }>('GET', 'api/migration/verify', { signal })).findings
    }
  }
}
