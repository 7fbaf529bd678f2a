import type { Clock } from '../base/clock.js'
import type { AccessToken } from '../model/access.js'
import { systemActor, type AuditEvent } from '../model/audit.js'
import { daysLeftOf, dueReminder, type TokenReminder } from '../model/token-advice.js'
import type { Store, Transaction } from '../store/database.js'
import { listSentReminders, putSentReminder } from '../store/tables/access.js'

/** Reminds of named tokens that end soon: once per token 14 days and one day before. */
export interface TokenReminders {
  /** Sends the reminders that are due now. Never rejects. */
  check(): Promise<void>
  /** Checks now and every hour. */
  start(): void
  /** Waits for a check in progress. */
  stop(): Promise<void>
}

/** Dependencies of the reminders. */
export interface TokenRemindersNeeds {
  store: Pick<Store, 'all' | 'get' | 'write'>
  clock: Pick<Clock, 'now'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
  tokens(): readonly AccessToken[]
  send(reminder: TokenReminder): void
  log(message: string, error?: unknown): void
}

const hourMs = 60 * 60_000

/**
 * Creates the reminders. A reminder is stored before it is sent, so a restart does not repeat it. One that cannot be
 * delivered is in the audit log as every notification.
 */
export function createTokenReminders({ store, clock, audit, tokens, send, log }: TokenRemindersNeeds): TokenReminders {
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()

  /** Returns the tokens that need a reminder, with its number of days. */
  function due(): Array<{ token: AccessToken; days: number }> {
    const nowMs = clock.now()
    const sent = new Map(listSentReminders(store).map(each => [each.tokenId, each]))
    return tokens().flatMap(token => {
      const days = dueReminder(token, nowMs)
      const last = sent.get(token.id)
      const isSent = last !== undefined && last.expiresAt === token.expiresAt && days !== null && last.days <= days
      return days === null || isSent ? [] : [{ token, days }]
    })
  }

  async function remind(): Promise<void> {
    try {
      const reminders = due()
      if (reminders.length === 0) return
      await store.write(tx => {
        for (const { token, days } of reminders) {
          const { id, name, expiresAt } = token
          putSentReminder(tx, { tokenId: id, expiresAt, days })
          const detail = `${name}, expires ${expiresAt}`
          audit.within(tx, { action: 'token.expiring', actor: systemActor, target: id, detail })
        }
      })
      for (const { token } of reminders) {
        const { id, name, role, projectIds, expiresAt } = token
        send({ token: { id, name, role, projectIds, expiresAt }, daysLeft: daysLeftOf(token, clock.now()) })
      }
    } catch (error) {
      log('Cannot send the reminders of tokens that expire soon', error)
    }
  }

  /** Checks do not overlap, so no reminder is sent twice. */
  function check(): Promise<void> {
    running = running.then(remind)
    return running
  }

  return {
    check,
    start() {
      void check()
      timer = setInterval(() => void check(), hourMs).unref()
    },
    async stop() {
      clearInterval(timer)
      await running
    }
  }
}
