import { invalid, Refusal } from '../base/errors.js'
import { checkKeepsIn } from '../access/failures.js'
import type { Delivery } from '../operate/notify/webhook.js'
import { itemsOf } from '../base/text.js'
import { describeSettings } from '../projects/settings.js'
import { isAllowedHost, networkOf } from '../http/core/headers.js'
import { expectedTags } from '../http/core/reply.js'
import { json, type Reply } from '../http/core/route.js'
import {
  flag,
  integer,
  line,
  list,
  maxPathLength,
  name,
  oneOf,
  optional,
  type Read,
  readFields,
  readRights,
  reads,
  multiline,
  nullable
} from '../base/fields.js'
import {
  eventKeys,
  kindDomains,
  notificationKinds,
  type NotificationTargetView,
  settingsTargetId,
  telemetryEvents
} from '../model/setting.js'
import { archiveSums } from './client.js'
import { type ApiRequest, type Handler, param, queryLimit, optionalBody } from './route.js'
import type { ApiServices } from './services.js'
import { attachment } from '../http/static/file.js'
import { startTime } from './upload.js'

/** Handlers of the settings and of the server status (§4.7). */
export function settingsHandlers({ settings, status, webhook, publicUrl, proof }: ApiServices) {
  return {
    /** Without a recent proof, the answer has no secrets. It has no tag either: a form must not write it back. */
    read: ({ actor }) => {
      const all = settings.all()
      if (proof.isRecent(actor.provenAt)) return { kind: 'json', status: 200, body: all, etag: `"${settings.state()}"` }
      return json(Object.fromEntries(Object.entries(all).filter(([key]) => !settings.isSecret(key))))
    },

    schema: () => json({ settings: describeSettings() }),

    write: async request => {
      const { client, actor } = request
      const given = await request.json()
      readFields(given, {})
      const values = settings.check(given as Record<string, unknown>)
      const allowed = values.get('allowed_ips')
      const hosts = values.get('allowed_hosts')
      if (hosts !== undefined && !client.local) checkKeepsName(request, itemsOf(hosts))
      if (allowed !== undefined && !client.local) checkKeepsIn(itemsOf(allowed), client.witnessed)
      await settings.update(values, actor, { seen: expectedTags(request.headers) })
      if (values.has('webhook_url') || values.has('webhook_secret')) await webhook.retry(settingsTargetId)
      return json({ success: true, message: 'The settings were saved' })
    },

    status: async () => json({ ...status(), archives: await archiveSums() }),

    testWebhook: async ({ actor, signal }) => testReply(await webhook.test(actor, { signal }))
  } satisfies Record<string, Handler>

  /** Refuses a list of host names that excludes the host of this request: 400 `shuts_out_yourself`. */
  function checkKeepsName({ headers }: ApiRequest, listed: readonly string[]): void {
    const names = listed.length === 0 || publicUrl === null ? listed : [...listed, new URL(publicUrl).hostname]
    if (isAllowedHost(headers.host, names)) return
    const sentence = `"allowed_hosts" cannot be set: it would block "${headers.host}", the address of this panel`
    throw new Refusal('invalid', 'shuts_out_yourself', sentence, { field: 'allowed_hosts' })
  }
}

/** Returns the reply with the result of a test message. */
function testReply({ outcome, statusCode, durationMs, attempts, reason }: Delivery): Reply {
  if (outcome === 'delivered') return json({ success: true, statusCode, durationMs, attempts })
  const error = `The test message was not delivered: ${reason}`
  return json({ success: false, statusCode, durationMs, attempts, error })
}

const maxProjects = 1_000
const maxSecretLength = 1_024

const address = line({ min: 1, max: maxPathLength, trim: true })
/** Fields of a change of a notification target. */
export const targetFields = {
  name: optional(name),
  /** The format of messages. Default: the kind that the address suggests. */
  kind: optional(oneOf(notificationKinds)),
  /** The address to send messages to. It may contain secrets, and responses do not contain it. */
  url: optional(address),
  /** Secret for signing messages. Empty means none. */
  secret: optional(line({ max: maxSecretLength, trim: true })),
  /** The events to notify about. */
  events: optional(list(oneOf(eventKeys), { max: eventKeys.length })),
  /** Projects to notify about. Empty means all. */
  projectIds: optional(list(line({ min: 1, max: 100 }), { max: maxProjects })),
  /** Whether messages are sent. */
  enabled: optional(flag)
}

/** Fields of a new notification target. */
export const newTargetFields = {
  ...targetFields,
  name,
  /** The address to send messages to. It may contain secrets, and responses do not contain it. */
  url: address
}

/**
 * Handlers of notification targets. Responses contain neither secrets nor the paths of addresses. A change without them
 * keeps both; an empty `secret` removes the secret.
 */
export function notificationTargetHandlers({ notificationTargets: targets, webhook }: ApiServices) {
  const shown = (target: NotificationTargetView): NotificationTargetView => {
    const failure = webhook.failureOf(target.id)
    return failure === undefined ? target : { ...target, failure }
  }

  return {
    list: () => json({ items: targets.list().map(shown), domains: kindDomains }),

    create: async request => {
      const fields = readRights(await request.json(), newTargetFields)
      return json({ success: true, target: await targets.create(withoutDuplicates(fields), request.actor) })
    },

    update: async request => {
      const fields = readFields(await request.json(), targetFields)
      const change = { ...withoutDuplicates(fields), seen: expectedTags(request.headers) }
      const target = await targets.update(param(request, 'id'), change, request.actor)
      await webhook.retry(target.id)
      return json({ success: true, target })
    },

    remove: async request => {
      await targets.remove(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The notification target was deleted' })
    },

    test: async request =>
      testReply(await webhook.test(request.actor, { signal: request.signal, targetId: param(request, 'id') }))
  } satisfies Record<string, Handler>
}

function withoutDuplicates<T extends { events?: string[] | undefined; projectIds?: string[] | undefined }>(
  fields: T
): T {
  const { events, projectIds } = fields
  return {
    ...fields,
    ...(events === undefined ? {} : { events: [...new Set(events)] }),
    ...(projectIds === undefined ? {} : { projectIds: [...new Set(projectIds)] })
  }
}

const defaultDays = 30

/** Handlers of the telemetry collector: accepts reports and returns counts (§4.12). */
export function telemetryHandlers({ telemetry: { collector, maxDays, reports, overviews } }: ApiServices) {
  return {
    report: async request => {
      reports.take(networkOf(request.client.witnessed))
      const report = readFields(await request.json(), reportFields)
      await collector.add(report)
      return json({ success: true })
    },

    overview: ({ client, query }) => {
      overviews.take(networkOf(client.witnessed))
      return json(collector.overview(queryLimit(query, 'days', { fallback: defaultDays, max: maxDays })))
    }
  } satisfies Record<string, Handler>
}

/** The end of the year 9999. */
const maxInstantMs = 253_402_300_799_999

const short = line({ min: 1, max: 64 })

/** Reads a word. The counts are public, so reports must not contain sentences or markup. */
const word: Read<string> = reads(short.schema, 'linux', (value, field) => {
  const given = short(value, field)
  if (!/^[\w.+-]+$/.test(given))
    throw invalid(field, `"${field}" may contain only letters, digits, ".", "_", "+" and "-"`)
  return given
})

const instantSchema = { anyOf: [short.schema, { type: 'integer', minimum: 0, maximum: maxInstantMs }] }

/** Reads a time as a text, or as milliseconds since 1970. */
const instant: Read<string> = reads(instantSchema, '2030-01-02T03:04:05Z', (value, field) => {
  if (typeof value === 'number') return new Date(integer(0, maxInstantMs)(value, field)).toISOString()
  const given = short(value, field)
  if (Number.isNaN(Date.parse(given)))
    throw invalid(field, `"${field}" is "${given}": expected a time like "2030-01-02T03:04:05Z"`)
  return given
})

/** Fields of `POST /api/public/telemetry/report`. */
export const reportFields = {
  /** The event to count. */
  event: oneOf(telemetryEvents),
  /** Time of the event. */
  ts: instant,
  /** Version of the program. */
  svcVersion: word,
  /** Random id of the installation. */
  instanceId: word,
  /** Operating system. */
  os: word,
  /** Processor architecture. */
  arch: word
}

/** Maximum length of a public key. */
const maxKeyLength = 8192

/** Fields of `POST /api/signing-keys`. */
export const trustFields = {
  /** A public key of ssh-keygen, minisign or svc, or a line of `allowed_signers`. */
  public: multiline({ min: 1, max: maxKeyLength }),
  /** Default: the name in the key. */
  name: optional(line({ min: 1, max: 100, trim: true })),
  /** The projects whose releases it may sign. Default: all. */
  projectIds: nullable(list(line({ min: 1, max: 100 }), { min: 1, max: 1000 })),
  /** From when it may sign. */
  notBefore: startTime,
  /** Until when it may sign. */
  notAfter: startTime
}
/** Fields of `POST /api/signing-keys/:id/revoke`. */
export const revokeKeyFields = {
  /** From when on what it has signed is not accepted. Default: now. */
  since: startTime
}

/** Handlers of the keys that may sign releases. */
export async function signingKeyHandlers({ deployer, ...doors }: ApiServices) {
  const signingKeys = await doors.signingKeys()
  return {
    list: () => json({ items: signingKeys.list(), file: deployer.signersFile() }),

    trust: async request => {
      const key = await signingKeys.trust(readRights(await request.json(), trustFields), request.actor)
      return json({ success: true, key })
    },

    revoke: async request => {
      const { since } = readFields(await optionalBody(request), revokeKeyFields)
      const given = { since: since ?? undefined, actor: request.actor }
      return json({ success: true, ...(await signingKeys.revoke(param(request, 'id'), given)) })
    }
  } satisfies Record<string, Handler>
}

/** Handlers of the statement of a deployment, its signatures, and the list of its components. */
export function attestationHandlers({ deployer, records }: ApiServices) {
  return {
    list: async request => {
      const { id } = records.find(request, param(request, 'id'))
      return json({ attestations: await deployer.attestations(id) })
    },

    /** Always an attachment. */
    get: async (request): Promise<Reply> => {
      const { id } = records.find(request, param(request, 'id'))
      const { name, type, content } = await deployer.attestation(id, param(request, 'name'))
      const headers = { 'content-type': type, 'content-disposition': attachment(`${id}.${name}`) }
      return { kind: 'bytes', status: 200, headers, body: content }
    }
  } satisfies Record<string, Handler>
}
