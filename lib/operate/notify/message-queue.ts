/*
 * The messages to the stored targets. They are stored until they are delivered, for a day at most, so that a restart of
 * svc or of the receiver loses none.
 *
 * Each target gets its messages in their order, one at a time. After an attempt that may succeed later, the queue of the
 * target waits: longer each time, and as long as the receiver asks. A message that was delivered just before svc was
 * killed is sent again, with the same id. The target is read for each attempt: a change of its address applies at once.
 */

import { type Clock, elapsedOf, pause } from '../../base/clock.js'
import { countOf } from '../../base/text.js'
import type { Ids } from '../../base/digests.js'
import type { WaitingMessage } from '../../model/setting.js'
import type { Store } from '../../core/store/database.js'
import {
  deleteDelivered,
  deleteWaitingMessage,
  dropAbove,
  dropBefore,
  findNotificationTarget,
  firstWaitingMessage,
  insertWaitingMessage,
  targetsWithMessages,
  updateWaitingMessage
} from '../../core/store/tables/server.js'
import type { Notification } from './events.js'
import type { Destination } from './targets.js'

/** The result of one attempt. `retryAfterMs` is the wait that the receiver asks for. */
export type Attempted =
  | { outcome: 'delivered' }
  | { outcome: 'failed'; mayRetry: boolean; reason: string; retryAfterMs: number }

export interface MessageQueueNeeds {
  store: Store
  clock: Clock
  ids: Pick<Ids, 'id'>
  /** Makes one attempt. Rejects only with the reason of the signal. */
  attempt(to: Destination, notification: Notification, options: { id: string; signal: AbortSignal }): Promise<Attempted>
  /** Counts and audits what was refused for good. */
  refused(to: Destination, notification: Notification, end: { reason: string; attempts: number }): Promise<void>
  /** Counts a message that the target has taken. */
  delivered(targetId: string): void
  /** Counts and audits dropped messages. */
  dropped(to: Destination, count: number, why: string): Promise<void>
  log(message: string, error?: unknown): void
  limits?: Partial<QueueLimits>
}

export interface QueueLimits {
  /** Maximum number of messages of one target, and of their bytes. */
  messages: number
  bytes: number
  /** Time after which a message is dropped. */
  maxAgeMs: number
  /** Waits after the first, second, … attempt; the last one applies to all that follow. */
  waitsMs: readonly number[]
}

const defaultLimits: QueueLimits = {
  messages: 200,
  bytes: 512 * 1024,
  maxAgeMs: 24 * 60 * 60_000,
  waitsMs: [500, 5_000, 30_000, 2 * 60_000, 10 * 60_000, 30 * 60_000]
}
/** Wait after an error of svc itself, as of a full disk. */
const troubleMs = 60_000

/** The messages to the stored targets. Nothing is sent before `start`. */
export class MessageQueue {
  readonly #needs: MessageQueueNeeds
  readonly #limits: QueueLimits
  readonly #stopping = new AbortController()
  readonly #ending = new AbortController()
  /** Working targets, and what ends the wait of each. */
  readonly #works = new Map<string, { done: Promise<void>; wake: AbortController }>()
  /** Messages whose end could not be stored. They are not sent again. */
  readonly #ended = new Set<string>()
  /** Dropped messages by target that are not audited yet. */
  readonly #overflow = new Map<string, number>()
  #isStarted = false
  // A change of the machine's clock neither drops messages nor delays them.
  readonly #startMs: number
  readonly #startElapsed: number

  constructor(needs: MessageQueueNeeds) {
    this.#needs = needs
    this.#limits = { ...defaultLimits, ...needs.limits }
    this.#startMs = needs.clock.now()
    this.#startElapsed = elapsedOf(needs.clock)
  }

  /** Begins to send what is stored. */
  start(): void {
    this.#isStarted = true
    for (const targetId of targetsWithMessages(this.#needs.store)) this.#kick(targetId)
  }

  /** Stores a message and sends it when its turn comes. Rejects if it cannot be stored. */
  async add(targetId: string, notification: Notification): Promise<void> {
    const { ids, store } = this.#needs
    const now = instant(this.#nowMs())
    const message = {
      id: ids.id('msg_'),
      targetId,
      notification: notification as unknown as Record<string, unknown>,
      createdAt: now,
      attempts: 0,
      nextAt: now,
      problem: null
    }
    await store.write(tx => {
      if (findNotificationTarget(tx, targetId) === undefined) return
      insertWaitingMessage(tx, message)
      const count = dropAbove(tx, targetId, this.#limits)
      if (count > 0) this.#overflow.set(targetId, (this.#overflow.get(targetId) ?? 0) + count)
    })
    this.#kick(targetId)
  }

  /** Tries again at once: the target was changed, or has accepted a message. */
  retry(targetId: string): void {
    this.#works.get(targetId)?.wake.abort()
  }

  /** Waits `graceMs` for the attempts in progress, then aborts them. What is not delivered stays stored. */
  async stop({ graceMs }: { graceMs: number }): Promise<void> {
    this.#ending.abort()
    for (const { wake } of this.#works.values()) wake.abort()
    const grace = setTimeout(() => this.#stopping.abort(new Error('the server was stopped')), graceMs)
    await Promise.all([...this.#works.values()].map(({ done }) => done))
    clearTimeout(grace)
  }

  #nowMs(): number {
    return this.#startMs + elapsedOf(this.#needs.clock) - this.#startElapsed
  }

  #kick(targetId: string): void {
    if (!this.#isStarted || this.#ending.signal.aborted || this.#works.has(targetId)) return
    const wake = new AbortController()
    const done = this.#work(targetId).finally(() => {
      this.#works.delete(targetId)
      if (!this.#ending.signal.aborted && firstWaitingMessage(this.#needs.store, targetId) !== undefined)
        this.#kick(targetId)
    })
    this.#works.set(targetId, { done, wake })
  }

  /** Sends the messages of a target until none is left. Never rejects. */
  async #work(targetId: string): Promise<void> {
    // After `kick` has stored it.
    await Promise.resolve()
    let isForced = false
    while (!this.#ending.signal.aborted) {
      try {
        const waitMs = await this.#step(targetId, isForced)
        if (waitMs === null) return
        isForced = waitMs > 0 && (await this.#sleepFor(targetId, waitMs))
      } catch (error) {
        if (this.#ending.signal.aborted) return
        this.#needs.log('Cannot send notifications', error)
        await this.#sleepFor(targetId, troubleMs)
      }
    }
  }

  /** Waits; returns true if `retry` ends it, or was called since the last wait. */
  async #sleepFor(targetId: string, ms: number): Promise<boolean> {
    const work = this.#works.get(targetId)
    if (work === undefined || this.#ending.signal.aborted) return false
    await pause(Math.min(ms, this.#limits.maxAgeMs), work.wake.signal).catch(() => {})
    const isWoken = work.wake.signal.aborted
    if (isWoken) work.wake = new AbortController()
    return isWoken
  }

  /** Makes the next attempt if it is due. Returns the time to wait before the next step, or null if nothing is left. */
  async #step(targetId: string, isForced: boolean): Promise<number | null> {
    const { store } = this.#needs
    const target = findNotificationTarget(store, targetId)
    if (target === undefined) return null
    await this.#dropOld(target)
    const message = firstWaitingMessage(store, targetId)
    if (message === undefined) return null
    if (this.#ended.has(message.id)) return this.#remove(message, deleteWaitingMessage)
    const waitMs = target.enabled ? Date.parse(message.nextAt) - this.#nowMs() : this.#limits.maxAgeMs
    const restMs = Date.parse(message.createdAt) + this.#limits.maxAgeMs - this.#nowMs()
    if (waitMs > 0 && !(target.enabled && isForced)) return Math.max(1, Math.min(waitMs, restMs + 1))
    const notification = message.notification as unknown as Notification
    const result = await this.#needs.attempt(target, notification, { id: message.id, signal: this.#stopping.signal })
    const attempts = message.attempts + 1
    if (result.outcome === 'delivered') {
      this.#needs.delivered(targetId)
      return this.#remove(message, deleteDelivered)
    }
    if (result.mayRetry) return this.#retryLater(message, attempts, result)
    await this.#remove(message, deleteWaitingMessage)
    await this.#needs.refused(target, notification, { reason: result.reason, attempts })
    return 0
  }

  async #retryLater(
    { id }: WaitingMessage,
    attempts: number,
    { reason, retryAfterMs }: Extract<Attempted, { outcome: 'failed' }>
  ): Promise<number> {
    const planned = this.#limits.waitsMs[Math.min(attempts, this.#limits.waitsMs.length) - 1] as number
    const waitMs = Math.min(Math.max(planned, retryAfterMs), this.#limits.maxAgeMs)
    const patch = { attempts, nextAt: instant(this.#nowMs() + waitMs), problem: reason }
    await this.#needs.store.write(tx => updateWaitingMessage(tx, id, patch))
    return 0
  }

  /** Removes a message that has its result. If that cannot be stored, it is not sent again. */
  async #remove(message: WaitingMessage, how: typeof deleteDelivered | typeof deleteWaitingMessage): Promise<number> {
    this.#ended.add(message.id)
    await this.#needs.store.write(tx => {
      if (how === deleteDelivered) deleteDelivered(tx, message)
      else deleteWaitingMessage(tx, message.id)
    })
    this.#ended.delete(message.id)
    return 0
  }

  /** Drops what has waited for too long, and audits what was dropped since the last step. */
  async #dropOld(target: Destination): Promise<void> {
    const { store } = this.#needs
    const problem = firstWaitingMessage(store, target.id)?.problem ?? null
    const before = instant(this.#nowMs() - this.#limits.maxAgeMs)
    const oldest = firstWaitingMessage(store, target.id)?.createdAt ?? before
    const old = oldest < before ? await store.write(tx => dropBefore(tx, target.id, before)) : 0
    const many = this.#overflow.get(target.id) ?? 0
    this.#overflow.delete(target.id)
    const latest = problem === null ? '' : `. Latest attempt: ${problem}`
    if (old > 0)
      await this.#needs.dropped(target, old, `not delivered within ${this.#limits.maxAgeMs / 3_600_000} h${latest}`)
    if (many > 0) await this.#needs.dropped(target, many, `more than ${this.#limits.messages} were waiting${latest}`)
  }
}

function instant(ms: number): string {
  return new Date(ms).toISOString()
}

/** Returns the text for the audit log about dropped messages. */
export function droppedText(name: string, count: number, why: string): string {
  return `${name}: ${countOf(count, 'message')} dropped: ${why}`
}

export interface LaneLimits {
  /** Maximum number of keys that have work. Each of them has a place of its own. */
  keys: number
  /** Maximum number that run at once beside the first of each key, in total. */
  shared: number
  /** Maximum number that run at once with one key. */
  perKey: number
  /** Maximum number that wait with one key. */
  waitingPerKey: number
}

interface Queue {
  running: number
  waiting: Array<() => Promise<void>>
}

/**
 * Creates a lane. Each key has its own order and limits, and a place that no other key can take: a key with slow work
 * delays only itself, however many such keys there are. What runs beyond that takes turns. So at most `keys` + `shared`
 * run, and `keys` × `waitingPerKey` wait.
 */
export function createLane({ keys, shared, perKey, waitingPerKey }: LaneLimits) {
  const queues = new Map<string, Queue>()
  let running = 0
  let sharedNow = 0
  let onIdle: Array<() => void> = []

  function mayStart(queue: Queue): boolean {
    return queue.running === 0 || (queue.running < perKey && sharedNow < shared)
  }

  function start(key: string, queue: Queue, work: () => Promise<void>): void {
    running++
    if (queue.running++ > 0) sharedNow++
    void work().finally(() => end(key, queue))
  }

  function end(key: string, queue: Queue): void {
    running--
    if (--queue.running > 0) sharedNow--
    if (queue.running === 0 && queue.waiting.length === 0) queues.delete(key)
    startNext()
    if (running > 0) return
    for (const resolve of onIdle) resolve()
    onIdle = []
  }

  function startNext(): void {
    for (const [key, queue] of queues) {
      if (!mayStart(queue)) continue
      const work = queue.waiting.shift()
      if (work === undefined) continue
      // Move the key to the end, so that the next turn is another key's.
      queues.delete(key)
      queues.set(key, queue)
      return start(key, queue, work)
    }
  }

  return {
    /**
     * Queues `work`. Returns false, and never runs it, if too many are waiting with this key, or too many keys have work.
     * `work` must not reject.
     */
    add(key: string, work: () => Promise<void>): boolean {
      const queue = queues.get(key) ?? { running: 0, waiting: [] }
      if (!queues.has(key) && queues.size >= keys) return false
      queues.set(key, queue)
      if (mayStart(queue)) start(key, queue, work)
      else if (queue.waiting.length >= waitingPerKey) return false
      else queue.waiting.push(work)
      return true
    },

    /** Resolves when nothing is running or waiting. */
    idle: (): Promise<void> => (running === 0 ? Promise.resolve() : new Promise(resolve => void onIdle.push(resolve)))
  }
}
