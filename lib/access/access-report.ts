import type { Clock } from '../base/clock.js'
import {
  type AccessReport,
  type AccessToken,
  adviceOf,
  type BuiltInToken,
  daysLeftOf,
  dueReminder,
  includesRole,
  isInScope,
  isValidToken,
  type ReportedBuiltIn,
  type ReportedToken,
  secretDaysOf,
  type TokenReminder
} from '../model/access.js'
import type { Project } from '../model/project.js'
import type { Store, Transaction } from '../core/store/database.js'
import { lastActs, listSentReminders, putSentReminder } from '../core/store/tables/access.js'
import { readProjects } from '../core/store/tables/projects.js'
import { type AuditEvent, systemActor } from '../model/audit.js'

export interface AccessReportNeeds {
  store: Pick<Store, 'all' | 'get'>
  clock: Pick<Clock, 'now'>
  settings: { number(key: 'token_rotate_days'): number; list(key: 'allowed_ips'): readonly string[] }
  tokens(): readonly AccessToken[]
  builtIn(): readonly BuiltInToken[]
  /** Whether an upload to a project may contain scripts. */
  mayClientsSendScripts(project: Pick<Project, 'allowClientScripts'>): boolean
}

/** Creates the report of which tokens can deploy where. */
export function createAccessReport(needs: AccessReportNeeds): () => AccessReport {
  const { store, clock, settings } = needs

  function reported(token: AccessToken, nowMs: number): ReportedToken {
    const { id, name, role, projectIds, allowedIps, createdBy, expiresAt, lastUsedAt, lastUsedIp, secondFactor } = token
    return {
      id,
      name,
      role,
      projectIds,
      allowedIps,
      createdBy,
      expiresAt,
      lastUsedAt,
      lastUsedIp,
      secondFactor,
      daysLeft: daysLeftOf(token, nowMs),
      secretDays: secretDaysOf(token, nowMs),
      advice: adviceOf(token, { nowMs, rotateDays: settings.number('token_rotate_days') })
    }
  }

  return () => {
    const nowMs = clock.now()
    const tokens = needs.tokens().filter(token => isValidToken(token, nowMs))
    const deployers = tokens.filter(({ role }) => includesRole(role, 'deployer'))
    const acts = lastActs(store)
    return {
      at: new Date(nowMs).toISOString(),
      rotateDays: settings.number('token_rotate_days'),
      allowedIps: [...settings.list('allowed_ips')],
      tokens: tokens.map(token => reported(token, nowMs)),
      builtIn: needs.builtIn().map(({ kind, projectId }): ReportedBuiltIn => {
        return { kind, projectId, lastUsedAt: acts.get(actorOf(kind, projectId)) ?? null }
      }),
      projects: readProjects(store, ['id', 'name', 'allowClientScripts', 'runAs']).map(project => {
        const { id, name, runAs } = project
        const tokenIds = deployers.filter(({ projectIds }) => isInScope(projectIds, id)).map(token => token.id)
        return { id, name, clientScripts: needs.mayClientsSendScripts(project), runAs, tokenIds }
      })
    }
  }
}

/** Returns the name of a built-in token in the audit log. */
function actorOf(kind: BuiltInToken['kind'], projectId: string | null): string {
  if (kind === 'admin') return 'admin'
  return kind === 'global' ? 'global-deploy' : `project:${projectId}`
}

/** Reminds of named tokens that end soon: once per token 14 days and one day before. */
export type TokenReminders = ReturnType<typeof createTokenReminders>

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
export function createTokenReminders({ store, clock, audit, tokens, send, log }: TokenRemindersNeeds) {
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
    /** Sends the reminders that are due now. Never rejects. */
    check,

    /** Checks now and every hour. */
    start(): void {
      void check()
      timer = setInterval(() => void check(), hourMs).unref()
    },

    /** Waits for a check in progress. */
    async stop(): Promise<void> {
      clearInterval(timer)
      await running
    }
  }
}
