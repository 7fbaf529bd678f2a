import type { SecureContext } from 'node:tls'
import { countOf } from '../../base/text.js'
import { type Clock, instantOf, pause } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { reasonOf } from '../../base/errors.js'
import { type Actor, type AuditEvent, systemActor } from '../../model/audit.js'
import {
  maxNotificationTargets,
  type NotificationFailure,
  type NotificationKind,
  settingsTargetId,
  readMailAddress,
  type Incident
} from '../../model/setting.js'
import type { Store, Transaction } from '../../core/store/database.js'
import { findFailure, forgetFailure, noteFailure } from '../../core/store/tables/server.js'
import type { Posted } from '../../http/outgoing/post.js'
import type { MailText } from './mail.js'
import type { TokenLock, TokenReminder } from '../../model/access.js'
import {
  type IncidentNotification,
  incidentNotification,
  type Notification,
  notificationOf,
  type Occasion,
  testNotification,
  type TokenNotification,
  tokenNotification
} from './events.js'
import { type Attempted, createLane, MessageQueue, droppedText } from './message-queue.js'
import { payloadOf, signed } from './payloads.js'
import { type Destination, parseTarget, type Targets } from './targets.js'

/** The possible results of a message. */
const deliveryOutcomes = ['delivered', 'refused', 'timeout', 'network', 'stopped'] as const
export type DeliveryOutcome = (typeof deliveryOutcomes)[number]

/** The result of a message after its last attempt. */
export interface Delivery {
  outcome: DeliveryOutcome
  /** Status of the last attempt, or null if there was no response. */
  statusCode: number | null
  attempts: number
  durationMs: number
  /** Why it was not delivered, as a clause without the address. */
  reason: string | null
}

export interface WebhookNeeds {
  store: Store
  targets: Pick<Targets, 'wanting' | 'find'>
  audit(event: AuditEvent): Promise<void>
  clock: Clock
  ids: Pick<Ids, 'id'>
  version: string
  /** The public address of the server, or null if it is not configured. */
  publicUrl: string | null
  /** Returns the newest signed checkpoint of the audit log; null: there is none. */
  checkpoint?(): string | null
  /** Returns the authorities to trust; undefined: those of Node. Throws an error with a sentence. */
  trust?(): SecureContext | undefined
  log(message: string, error?: unknown): void
  /** Waits before the second attempt; rejects when the signal is aborted. Default: by the clock of the machine. */
  pause?(ms: number, signal: AbortSignal): Promise<void>
}

interface Message {
  notification: Notification
  to: Destination
  url: URL
  actor: Actor
  projectId: string | null
}

/** The result of one attempt. A mail is `refused` for good, or `unsent`: it may be accepted later. */
type Attempt = Posted | { outcome: 'refused' | 'unsent'; reason: string }

/** Mail servers let strangers wait. */
const mailLimitMs = 30_000
const limitMs = 5_000 // §8
const maxAttempts = 2 // §8
/** Wait before the second attempt: a receiver that is restarting is more likely to respond by then. */
const pauseMs = 500
/** The longest wait that a receiver may ask for: it keeps one of the places of its lane. */
const maxPauseMs = 60_000
/**
 * Each target has a delivery of its own, and three more while few need them. Those of stored targets are used only while
 * the database cannot be written.
 */
const laneLimits = { keys: 2 * (maxNotificationTargets + 1), shared: 24, perKey: 4, waitingPerKey: 250 }

/** Sends notifications (§6.5). Failures are audited as `webhook.send`, with only the host of the address. */
export class Webhook {
  readonly #needs: WebhookNeeds
  readonly #lane = createLane(laneLimits)
  readonly #stopping = new AbortController()
  readonly #counts: Record<DeliveryOutcome, number> = { delivered: 0, refused: 0, timeout: 0, network: 0, stopped: 0 }
  /** What `#keep` could not store. */
  readonly #unstored = new Map<string, NotificationFailure | null>()
  #takesMore = true
  readonly #messages: MessageQueue

  constructor(needs: WebhookNeeds) {
    this.#needs = needs
    this.#messages = new MessageQueue({
      store: needs.store,
      clock: needs.clock,
      ids: needs.ids,
      log: needs.log,
      attempt: (to, notification, options) => this.#attemptStored(to, notification, options),
      delivered: () => {
        this.#counts.delivered++
      },
      refused: (to, notification, end) => {
        const delivery = { ...neverSent(end.reason), outcome: 'refused' as const, attempts: end.attempts }
        return this.#record(messageOf(to, new URL(to.url), notification), delivery)
      },
      dropped: async (to, count, why) => {
        this.#counts.stopped += count
        const detail = droppedText(to.name, count, why)
        const target = new URL(to.url).host
        await needs.audit({ action: 'webhook.send', actor: systemActor, target, detail, ok: false })
      }
    })
  }

  /** Sends an event to every target that wants it. Returns at once and never throws. */
  notify(occasion: Occasion): void {
    const { clock, publicUrl, targets, log } = this.#needs
    try {
      const notification = this.#witnessed(notificationOf(occasion, clock.now(), publicUrl))
      for (const to of targets.wanting(occasion.event, [occasion.project.id])) this.#queue(to, notification)
    } catch (error) {
      log('Cannot send a notification', error)
    }
  }

  /** Sends a reminder to every target that wants it, in the same way. */
  remind(reminder: TokenReminder): void {
    this.#tellOfToken(reminder)
  }

  /** Says that a token is locked, in the same way. */
  locked(lock: TokenLock): void {
    this.#tellOfToken(lock)
  }

  /**
   * Sends one test message to a target, by default that of the settings, and waits for the result. Refuses as
   * `Targets.find`: 404, and 400 `no_webhook` if the settings have no address.
   */
  async test(
    actor: Actor,
    { signal, targetId = settingsTargetId }: { signal: AbortSignal; targetId?: string }
  ): Promise<Delivery> {
    const { targets, clock, publicUrl } = this.#needs
    const to = targets.find(targetId)
    const notification = this.#witnessed(testNotification(clock.now(), publicUrl))
    const delivery = await this.#send({ notification, to, url: new URL(to.url), actor, projectId: null }, signal)
    if (delivery.outcome === 'delivered') this.#messages.retry(targetId)
    return delivery
  }

  /** Returns the number of messages by outcome since the start, including test messages. */
  deliveries(): Readonly<Record<DeliveryOutcome, number>> {
    return { ...this.#counts }
  }

  /** Returns the latest message of a target, if it failed for good and nothing was delivered since. */
  failureOf(targetId: string): NotificationFailure | undefined {
    const unstored = this.#unstored.get(targetId)
    return unstored === undefined ? findFailure(this.#needs.store, targetId) : (unstored ?? undefined)
  }

  /** Begins to send the stored messages to the targets other than that of the settings. */
  start(): void {
    this.#messages.start()
  }

  /** Tries again at once to send what waits for a target: it was changed, so what failed before says nothing. */
  async retry(targetId: string): Promise<void> {
    this.#messages.retry(targetId)
    await this.#keep(targetId, null)
  }

  /** Stores why the latest message of a target failed; null: it says nothing any more. Never rejects. */
  async #keep(targetId: string, failure: NotificationFailure | null): Promise<void> {
    if (failure === null && this.failureOf(targetId) === undefined) return
    const write = (tx: Transaction): void =>
      failure === null ? forgetFailure(tx, targetId) : noteFailure(tx, targetId, failure)
    await this.#needs.store.write(write).then(
      () => this.#unstored.delete(targetId),
      () => this.#unstored.set(targetId, failure)
    )
  }

  /** Accepts no more messages, waits `graceMs` for those in progress, then aborts them. */
  async stop({ graceMs }: { graceMs: number }): Promise<void> {
    this.#takesMore = false
    const stored = this.#messages.stop({ graceMs })
    const grace = setTimeout(() => this.#stopping.abort(new Error(stopped)), graceMs)
    await this.#lane.idle()
    clearTimeout(grace)
    await stored
  }

  /** Reports an incident, in the same way. */
  incident(incident: Incident): void {
    const { clock, publicUrl } = this.#needs
    const projectIds =
      incident.project === null ? ('projectIds' in incident ? incident.projectIds : null) : [incident.project.id]
    this.#tell(() => incidentNotification(incident, clock.now(), publicUrl), projectIds)
  }

  #tellOfToken(about: TokenReminder | TokenLock): void {
    const { clock, publicUrl } = this.#needs
    this.#tell(() => tokenNotification(about, clock.now(), publicUrl), about.token.projectIds)
  }

  /** Queues a notification for the targets that want it. `projectIds`: null concerns the whole server. */
  #tell(make: () => TokenNotification | IncidentNotification, projectIds: readonly string[] | null): void {
    const { targets, log } = this.#needs
    try {
      const notification = this.#witnessed(make())
      for (const to of targets.wanting(notification.event, projectIds)) this.#queue(to, notification)
    } catch (error) {
      log('Cannot send a notification', error)
    }
  }

  #witnessed<T extends Notification>(notification: T): T {
    return { ...notification, checkpoint: this.#needs.checkpoint?.() ?? null }
  }

  /** Queues a message. A target with an invalid address must not affect the others. */
  #queue(to: Destination, notification: Notification): void {
    const { log } = this.#needs
    const url = parseTarget(to)
    if (url === null) return log(`Cannot send a notification: the address of "${to.name}" is not valid`)
    const message = messageOf(to, url, notification)
    if (this.#takesMore && to.id !== settingsTargetId) {
      this.#messages.add(to.id, notification).catch((error: unknown) => {
        log('Cannot store a notification', error)
        this.#queueInMemory(message)
      })
    } else this.#queueInMemory(message)
  }

  /** Sends a message with two attempts (§6.5). */
  #queueInMemory(message: Message): void {
    const { to } = message
    const isTaken =
      this.#takesMore && this.#lane.add(to.id, async () => void (await this.#send(message, this.#stopping.signal)))
    if (!isTaken) void this.#record(message, neverSent(this.#takesMore ? 'too many messages are waiting' : stopped))
  }

  async #attemptStored(
    to: Destination,
    notification: Notification,
    { id, signal }: { id: string; signal: AbortSignal }
  ): Promise<Attempted> {
    const payload = payloadOf(notification, to.kind)
    const posted = await this.#attempt(messageOf(to, new URL(to.url), notification), { id, payload, signal })
    const { outcome, reason } = verdictOf(posted, to.kind)
    if (outcome === 'delivered') return { outcome }
    return {
      outcome: 'failed',
      mayRetry: mayRetry(posted) || isAboutRate(reason ?? ''),
      reason: reason ?? outcome,
      retryAfterMs: retryAfterOf(posted)
    }
  }

  /** Makes all attempts of one message and audits a failure. Never rejects. */
  async #send(message: Message, signal: AbortSignal): Promise<Delivery> {
    const { ids, log } = this.#needs
    const startedMs = performance.now()
    const request = { id: ids.id('msg_'), payload: payloadOf(message.notification, message.to.kind), signal }
    let delivery = neverSent(stopped)
    let posted: Attempt | undefined
    try {
      while (delivery.attempts < maxAttempts) {
        if (delivery.attempts > 0)
          await (this.#needs.pause ?? pause)(
            pauseAfter(posted, signal === this.#stopping.signal ? maxPauseMs : limitMs),
            signal
          )
        posted = await this.#attempt(message, request)
        delivery = { ...verdictOf(posted, message.to.kind), attempts: delivery.attempts + 1, durationMs: 0 }
        if (!mayRetry(posted)) break
      }
    } catch (error) {
      if (!signal.aborted) log('Cannot send a notification', error)
      delivery = {
        ...delivery,
        outcome: 'stopped',
        reason: signal === this.#stopping.signal ? stopped : 'it was cancelled'
      }
    }
    delivery.durationMs = Math.round(performance.now() - startedMs)
    await this.#record(message, delivery)
    return delivery
  }

  #attempt(
    { to: { kind, secret }, url, notification }: Message,
    { id, payload, signal }: { id: string; payload: unknown; signal: AbortSignal }
  ): Promise<Attempt> {
    if (kind === 'email') return this.#mail({ url, secret, text: payload as MailText }, { id, signal })
    const message = signed(kind, { id, atMs: this.#needs.clock.now(), url, payload, secret })
    const headers = {
      'user-agent': `svc/${this.#needs.version}`,
      'x-svc-event': notification.event,
      ...message.headers
    }
    return this.#trusted(message.url, async secureContext => {
      const { post } = await import('../../http/outgoing/post.js')
      return post(message.url, { headers, body: message.body, limitMs, secureContext, signal })
    })
  }

  async #mail(
    { url, secret, text }: { url: URL; secret: string; text: MailText },
    { id, signal }: { id: string; signal: AbortSignal }
  ): Promise<Attempt> {
    const address = readMailAddress(url.href)
    if (typeof address === 'string') return { outcome: 'refused', reason: `the address is not valid: ${address}` }
    const { mailMessage } = await import('./mail.js')
    const message = mailMessage(text, { ...address, id, atMs: this.#needs.clock.now() })
    return this.#trusted(url, async secureContext => {
      const mail = { ...address, password: secret, message, limitMs: mailLimitMs, secureContext, signal }
      const { sendMail } = await import('../../http/outgoing/smtp.js')
      const sent = await sendMail(mail)
      if (sent.outcome === 'sent') return { outcome: 'answered', status: 250, text: null }
      return sent.outcome === 'refused'
        ? { outcome: 'refused', reason: sent.reason }
        : { outcome: 'unsent', reason: sent.reason }
    })
  }

  async #trusted({ protocol }: URL, send: (context: SecureContext | undefined) => Promise<Attempt>): Promise<Attempt> {
    let context: SecureContext | undefined
    try {
      context = protocol === 'http:' ? undefined : this.#needs.trust?.()
    } catch (error) {
      return { outcome: 'network', code: '', message: (error as Error).message }
    }
    return send(context)
  }

  /** Counts a result, and audits it unless the message was delivered. */
  async #record(
    { notification, to, url, actor, projectId }: Message,
    { outcome, reason, attempts }: Delivery
  ): Promise<void> {
    this.#counts[outcome]++
    if (outcome === 'delivered') return this.#keep(to.id, null)
    if (outcome !== 'stopped') await this.#keep(to.id, { at: instantOf(this.#needs.clock), reason: reason ?? outcome })
    const tried = countOf(attempts, 'attempt')
    const name = to.id === settingsTargetId ? '' : `${to.name}: `
    const detail = `${name}${notification.event} (${notification.trigger}): ${reason}, ${tried}`
    await this.#needs.audit({ action: 'webhook.send', actor, projectId, target: url.host, detail, ok: false })
  }
}

function messageOf(to: Destination, url: URL, notification: Notification): Message {
  const projectId = 'project' in notification ? (notification.project?.id ?? null) : null
  return { notification, to, url, actor: systemActor, projectId }
}

const stopped = 'the server was stopped'

function neverSent(reason: string): Delivery {
  return { outcome: 'stopped', statusCode: null, attempts: 0, durationMs: 0, reason }
}

/** The time before the second attempt: as long as a receiver asks, up to a limit. Somebody waits for a test. */
function pauseAfter(posted: Attempt | undefined, maxMs: number): number {
  return Math.min(Math.max(retryAfterOf(posted), pauseMs), maxMs)
}

function retryAfterOf(posted: Attempt | undefined): number {
  return posted?.outcome === 'answered' ? (posted.retryAfterMs ?? 0) : 0
}

/** Whether to try again: no response, an error of the receiver, or a request to slow down (§6.5). */
function mayRetry(posted: Attempt): boolean {
  if (posted.outcome === 'refused') return false
  return posted.outcome !== 'answered' || posted.status >= 500 || posted.status === 408 || posted.status === 429
}

function verdictOf(posted: Attempt, kind: NotificationKind): Pick<Delivery, 'outcome' | 'statusCode' | 'reason'> {
  switch (posted.outcome) {
    case 'timeout':
      return { outcome: 'timeout', statusCode: null, reason: `no answer within ${limitMs / 1000} s` }
    case 'refused':
    case 'unsent':
      return { outcome: posted.outcome === 'refused' ? 'refused' : 'network', statusCode: null, reason: posted.reason }
    case 'network':
      return { outcome: 'network', statusCode: null, reason: `the connection failed: ${reasonOf(posted)}` }
    case 'answered': {
      const complaint = complaintOf(posted, kind)
      return { outcome: complaint === null ? 'delivered' : 'refused', statusCode: posted.status, reason: complaint }
    }
  }
}

/** A response: its status, and its body if the body was complete in time. */
export interface Answer {
  status: number
  text: string | null
}

/** The end of a complaint about the rate: the same message is accepted later. */
const tooMany = 'too many messages were sent'

/** Error codes documented by the services, as the end of a sentence that says what to do. */
const knownCodes: Partial<Record<NotificationKind, Readonly<Record<number, string>>>> = {
  feishu: {
    9499: 'it cannot read the message',
    11232: tooMany,
    19001: 'the address is not valid',
    19021: 'the signature does not match: check the secret',
    19022: "this server's IP address is not on its allow list",
    19024: 'its keyword is missing: set "svc" as the keyword'
  },
  dingtalk: {
    130101: tooMany,
    300001: 'the address is not valid',
    310000: 'its security settings reject the message: set "svc" as the keyword, or check the secret',
    400013: 'the group was dissolved',
    410100: tooMany
  },
  wecom: {
    45009: tooMany,
    40008: 'it cannot read the message',
    93000: 'the address is not valid',
    93004: 'the robot was stopped',
    93008: 'the robot is not in the group'
  }
}

/**
 * Returns why a target did not accept a message, as a clause without the address, or null if it did. Chat services
 * answer 200 to messages that they do not show, with an error code in the body. The body of a generic receiver is
 * ignored.
 */
export function complaintOf({ status, text }: Answer, kind: NotificationKind): string | null {
  const isGood = status >= 200 && status <= 299
  const inBody = text === null ? null : complaintIn(text, kind, isGood)
  if (isGood) return inBody === null ? null : `answered with ${inBody}`
  return inBody === null ? `answered ${status}` : `answered ${status}: ${inBody}`
}

/** Whether a target complains about the rate of messages only, with whatever status. */
export function isAboutRate(complaint: string): boolean {
  return complaint.endsWith(tooMany) || /^answered \d+: rate_limited$|the Teams status 429$/.test(complaint)
}

function complaintIn(text: string, kind: NotificationKind, isGood: boolean): string | null {
  switch (kind) {
    case 'generic':
      return null
    case 'slack':
      // Slack sends one word with the status: `invalid_blocks`, `no_service`, `channel_is_archived`.
      return !isGood && /^[a-z][a-z_]{2,60}$/.test(text.trim()) ? text.trim() : null
    case 'teams':
      return teamsComplaint(text)
    case 'email':
      return null
    case 'discord':
    case 'ntfy':
    case 'telegram':
      return isGood ? null : wordsIn(text)
    default:
      return codeComplaint(text, kind)
  }
}

/** Older connectors answer 200 with a sentence. Workflows answer with an error object. */
function teamsComplaint(text: string): string | null {
  const [, status] = /HTTP error (\d{3})/.exec(text) ?? []
  if (status !== undefined) return `the Teams status ${status}`
  const code = (parsed(text)?.['error'] as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : null
}

/** Returns what a service says, without anything that could be part of an address. */
function wordsIn(text: string): string | null {
  const body = parsed(text)
  const said = body?.['description'] ?? body?.['message'] ?? body?.['error']
  return typeof said === 'string' && /^[\w .,:;'()-]{1,200}$/.test(said) ? said : null
}

function codeComplaint(text: string, kind: NotificationKind): string | null {
  const body = parsed(text)
  const code = body?.['errcode'] ?? body?.['code']
  if (typeof code !== 'number' || code === 0) return null
  const meaning = knownCodes[kind]?.[code]
  return `the error code ${code}${meaning === undefined ? '' : `: ${meaning}`}`
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : null
  } catch {
    return null
  }
}
