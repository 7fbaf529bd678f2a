import { setTimeout as sleep } from 'node:timers/promises'
import { countOf } from '../base/count.js'
import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import { Refusal } from '../base/refusal.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { systemActor } from '../model/audit.js'
import { notificationOf, testNotification, type Notification, type Occasion } from './events.js'
import { createLane } from './lane.js'
import { complaintIn, formOf, payloadOf, type PayloadForm } from './payloads.js'
import { parseHttpUrl, post, type Posted } from './post.js'
import { webhookHeaders } from './signature.js'

/** What came of a message after its last attempt. */
export interface Delivery {
  outcome: 'delivered' | 'refused' | 'timeout' | 'network' | 'stopped'
  /** Of the last attempt; null: no answer came. */
  statusCode: number | null
  attempts: number
  durationMs: number
  /** Why it was not delivered: a clause, without the address. */
  reason: string | null
}

export interface Webhook {
  /** Sends the notification of an occasion, where somebody wants it. Returns at once, never throws. */
  notify(occasion: Occasion): void
  /** Sends one test message and waits. Refuses: 400 `no_webhook` where there is no address. */
  test(actor: Actor, options: { signal: AbortSignal }): Promise<Delivery>
  /** Takes nothing more, and gives what is on its way `graceMs`; then breaks it off. */
  stop(options: { graceMs: number }): Promise<void>
}

export interface WebhookNeeds {
  /** Read anew for each message. */
  settings: {
    text(key: 'webhook_url' | 'webhook_secret'): string
    list(key: 'webhook_events'): readonly string[]
  }
  audit(event: AuditEvent): Promise<void>
  clock: Clock
  ids: Pick<Ids, 'id'>
  version: string
  /** Under which address people reach the server; null: nobody has said. */
  publicUrl: string | null
  log(message: string, error?: unknown): void
}

interface Message {
  notification: Notification
  url: URL
  secret: string
  actor: Actor
  projectId: string | null
}

const limitMs = 5_000 // §8
const maxAttempts = 2 // §8
/** Before the second attempt: a receiver that is being restarted is back by then, more often than at once. */
const pauseMs = 500
const deliveriesAbreast = 8
const maxWaiting = 1_000

/** Notifications to `webhook_url` (§6.5). A failure is audited as `webhook.send`, with the host of the address only. */
export function createWebhook(needs: WebhookNeeds): Webhook {
  const { settings, clock, ids, publicUrl, log } = needs
  const lane = createLane({ abreast: deliveriesAbreast, waiting: maxWaiting })
  const stopping = new AbortController()
  let takesMore = true

  function notify(occasion: Occasion): void {
    try {
      const address = settings.text('webhook_url')
      if (address === '' || !settings.list('webhook_events').includes(occasion.event)) return
      const message: Message = {
        notification: notificationOf(occasion, clock.now(), publicUrl),
        url: new URL(address),
        secret: settings.text('webhook_secret'),
        actor: systemActor,
        projectId: occasion.project.id
      }
      const isTaken = takesMore && lane.add(async () => void (await send(message, stopping.signal)))
      if (!isTaken) void record(message, neverSent(takesMore ? `${maxWaiting} others wait` : stopped))
    } catch (error) {
      log('A notification could not be sent', error)
    }
  }

  async function test(actor: Actor, { signal }: { signal: AbortSignal }): Promise<Delivery> {
    const url = parseHttpUrl(settings.text('webhook_url'))
    if (url === null) {
      const sentence = 'The test message cannot be sent: there is no address, set webhook_url first'
      throw new Refusal('invalid', 'no_webhook', sentence, { field: 'webhook_url' })
    }
    const notification = testNotification(clock.now(), publicUrl)
    const secret = settings.text('webhook_secret')
    return send({ notification, url, secret, actor, projectId: null }, signal)
  }

  /** All attempts of one message, and the audit entry where they failed. Never rejects. */
  async function send(message: Message, signal: AbortSignal): Promise<Delivery> {
    const startedMs = performance.now()
    const form = formOf(message.url.hostname)
    const request = { id: ids.id('msg_'), body: JSON.stringify(payloadOf(message.notification, form)), signal }
    let delivery = neverSent(stopped)
    try {
      while (delivery.attempts < maxAttempts) {
        if (delivery.attempts > 0) await sleep(pauseMs, undefined, { signal })
        const posted = await attempt(message, request)
        delivery = { ...verdictOf(posted, form), attempts: delivery.attempts + 1, durationMs: 0 }
        if (!mayRetry(posted)) break
      }
    } catch (error) {
      if (!signal.aborted) log('A notification could not be sent', error)
      delivery = { ...delivery, outcome: 'stopped', reason: signal === stopping.signal ? stopped : 'it was broken off' }
    }
    delivery.durationMs = Math.round(performance.now() - startedMs)
    if (delivery.outcome !== 'delivered') await record(message, delivery)
    return delivery
  }

  function attempt(
    { url, notification, secret }: Message,
    { id, body, signal }: { id: string; body: string; signal: AbortSignal }
  ): Promise<Posted> {
    const headers = {
      'user-agent': `svc/${needs.version}`,
      'x-svc-event': notification.event,
      ...webhookHeaders({ id, atMs: clock.now(), body, secret })
    }
    return post(url, { headers, body, limitMs, signal })
  }

  function record({ notification, url, actor, projectId }: Message, { reason, attempts }: Delivery): Promise<void> {
    const tried = countOf(attempts, 'attempt')
    const detail = `${notification.event} (${notification.trigger}): ${reason}, ${tried}`
    return needs.audit({ action: 'webhook.send', actor, projectId, target: url.host, detail, ok: false })
  }

  async function stop({ graceMs }: { graceMs: number }): Promise<void> {
    takesMore = false
    const grace = setTimeout(() => stopping.abort(new Error(stopped)), graceMs)
    await lane.idle()
    clearTimeout(grace)
  }

  return { notify, test, stop }
}

const stopped = 'the server was stopped'

function neverSent(reason: string): Delivery {
  return { outcome: 'stopped', statusCode: null, attempts: 0, durationMs: 0, reason }
}

/** Once more: where no answer came, where the receiver is at fault, and where it asks for patience (§6.5). */
function mayRetry(posted: Posted): boolean {
  return posted.outcome !== 'answered' || posted.status >= 500 || posted.status === 408 || posted.status === 429
}

function verdictOf(posted: Posted, form: PayloadForm): Pick<Delivery, 'outcome' | 'statusCode' | 'reason'> {
  switch (posted.outcome) {
    case 'timeout':
      return { outcome: 'timeout', statusCode: null, reason: `no answer within ${limitMs / 1000} s` }
    case 'network':
      return { outcome: 'network', statusCode: null, reason: `the connection failed (${posted.code})` }
    case 'answered': {
      const { status: statusCode, text } = posted
      if (statusCode < 200 || statusCode > 299) return { outcome: 'refused', statusCode, reason: `answered ${statusCode}` }
      const complaint = complaintIn(text, form)
      return { outcome: complaint === null ? 'delivered' : 'refused', statusCode, reason: complaint }
    }
  }
}
