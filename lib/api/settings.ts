import { Refusal } from '../base/errors.js'
import type { Proof } from '../auth/proof.js'
import { checkKeepsIn } from '../auth/allow-list.js'
import type { Delivery, Webhook } from '../notify/webhook.js'
import { itemsOf } from '../settings/setting-checks.js'
import { describeSettings, type Settings } from '../settings/settings.js'
import type { ServerStatus } from '../model/health.js'
import { isAllowedHost } from '../http/core/headers.js'
import { expectedTags } from '../http/core/reply.js'
import { json, type Reply } from '../http/core/route.js'
import { readFields } from '../base/fields.js'
import type { ApiRequest, Handler } from './route.js'

/** Dependencies of the handlers of settings. */
export interface SettingsNeeds {
  settings: Settings
  proof: Pick<Proof, 'isRecent'>
  status(): ServerStatus
  webhook: Pick<Webhook, 'test'>
  /** The public URL of the server as returned by `readPublicUrl`, or null. */
  publicUrl: string | null
}

/** Handlers of the settings and of the server status (§4.7). */
export function settingsHandlers({ settings, status, webhook, publicUrl, proof }: SettingsNeeds) {
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
      return json({ success: true, message: 'The settings were saved' })
    },

    status: () => json(status()),

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
export function testReply({ outcome, statusCode, durationMs, attempts, reason }: Delivery): Reply {
  if (outcome === 'delivered') return json({ success: true, statusCode, durationMs, attempts })
  const error = `The test message was not delivered: ${reason}`
  return json({ success: false, statusCode, durationMs, attempts, error })
}
