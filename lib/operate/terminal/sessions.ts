import { accessSync, constants, statSync } from 'node:fs'
import { basename, isAbsolute } from 'node:path'
import { Refusal } from '../../base/errors.js'
import type { Clock } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import {
  type ClientLeft,
  defaultTerminalSize,
  type TerminalAvailability,
  type TerminalErrorReason,
  type TerminalInput
} from '../../model/terminal.js'
import type { PtyModule } from '../../core/proc/pty.js'
import { userHome } from '../../base/runtime.js'
import { inheritedEnvironment, variablesWhere } from '../../core/proc/environment.js'
import { defaultSessionLimits, type EndReason, Session, type SessionLimits, type TerminalClient } from './session.js'

export interface TerminalLimits extends SessionLimits {
  /** Maximum number of shells that run at the same time. */
  maxSessions: number
}

const defaultTerminalLimits: TerminalLimits = { ...defaultSessionLimits, maxSessions: 10 } // decisions §6

/** What a client asks for: a new session, or one that it had before. */
export interface Opening {
  actor: Actor
  size?: { cols: number; rows: number } | undefined
  /** Project whose target is the working directory of the shell. */
  project?: { id: string; deployPath: string } | undefined
  sessionId?: string | undefined
  /** Position of the output to continue from, see Flow.rewind. */
  from?: number | undefined
}

/** A client's connection to its session. */
export interface Connected {
  take(input: TerminalInput): void
  detach(how: ClientLeft): void
}

interface Needs {
  /** Whether svc was started with terminals. `isEnabled` returns the setting `terminal_enabled`. */
  isOffered: boolean
  isEnabled(): boolean
  loadPty(): Promise<PtyModule>
  environment: Readonly<Record<string, string | undefined>>
  audit(event: AuditEvent): Promise<void>
  clock: Clock
  ids: Pick<Ids, 'id'>
  limits?: Partial<TerminalLimits>
}

/** Time between two checks whether sessions may still run. */
const checkEveryMs = 1000

export class Terminals {
  readonly #needs: Needs
  readonly #limits: TerminalLimits
  readonly #sessions = new Map<string, Session>()
  /** Sessions that are ending and audit entries that are being written. */
  readonly #pending = new Set<Promise<unknown>>()
  #isStopping = false
  #timer: NodeJS.Timeout | undefined

  constructor(needs: Needs) {
    this.#needs = needs
    this.#limits = { ...defaultTerminalLimits, ...needs.limits }
  }

  /** Returns whether terminals can be opened, and if not, why. */
  async available(): Promise<TerminalAvailability> {
    const why = await this.#obstacle()
    return why === undefined ? { available: true } : { available: false, reason: why.message, code: why.code }
  }

  /** Refuses if terminals cannot be opened: 403 `terminal_disabled`, 501 `terminal_unavailable`, 503 `stopping`. */
  async check(): Promise<void> {
    const why = await this.#obstacle()
    if (why !== undefined) throw why
  }

  /**
   * Connects a client to a session. Call `check` first. Resolves with undefined if there is no session; then the client
   * has been told why and was disconnected.
   */
  async connect(client: TerminalClient, opening: Opening): Promise<Connected | undefined> {
    const { isOffered, isEnabled } = this.#needs
    const { sessionId, actor, size, from } = opening
    const session =
      sessionId === undefined ? await this.#open(opening) : (this.#sessions.get(sessionId) ?? 'session_not_found')
    if (typeof session === 'string') return void sendAway(client, session)
    if (this.#isStopping) return void this.#track(session.end('stopping'))
    session.attach(client, { actor, size, from })
    this.#timer ??= setInterval(() => this.#check(), checkEveryMs).unref()
    return {
      take: input => {
        if (isOffered && isEnabled()) session.take(client, input)
        else this.#track(session.end('disabled'))
      },
      detach: how => session.detach(client, how)
    }
  }

  /** Ends what may not run any more, also if no client is connected and nothing is typed. */
  #check(): void {
    for (const session of [...this.#sessions.values()]) {
      if (!this.#needs.isEnabled()) this.#track(session.end('disabled'))
      else if (session.isRevoked) this.#track(session.end('revoked'))
    }
    if (this.#sessions.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Ends every session and its shell, and allows no new ones. Resolves when all have ended and are recorded. */
  async stop(): Promise<void> {
    this.#isStopping = true
    for (const session of [...this.#sessions.values()]) this.#track(session.end('stopping'))
    while (this.#pending.size > 0) await Promise.all(this.#pending)
  }

  #track(work: Promise<unknown>): void {
    this.#pending.add(work)
    void work.finally(() => this.#pending.delete(work))
  }

  /** Returns why no terminal can be opened, or undefined. */
  async #obstacle(): Promise<Refusal | undefined> {
    const { isOffered, isEnabled, loadPty } = this.#needs
    if (this.#isStopping)
      return new Refusal('unavailable', 'stopping', 'Terminal unavailable: the server is shutting down')
    if (!isOffered) return disabled('svc was started with --no-terminal')
    if (!isEnabled()) return disabled('the setting terminal_enabled is false')
    const module = await loadPty()
    return module.outcome === 'loaded' ? undefined : new Refusal('unsupported', 'terminal_unavailable', module.reason)
  }

  async #open(opening: Opening): Promise<Session | 'too_many_sessions' | 'shell_failed'> {
    const { loadPty, environment, ids, clock, audit } = this.#needs
    const module = await loadPty()
    const running = [...this.#sessions.values()].filter(session => session.isRunning)
    if (running.length >= this.#limits.maxSessions) return 'too_many_sessions'
    if (module.outcome !== 'loaded') return 'shell_failed'
    const { project, actor, size = defaultTerminalSize } = opening
    const shell = findShell(environment)
    const cwd = findDirectory(project?.deployPath ?? null, environment)
    const facts = { sessionId: ids.id('term_'), shell, cwd, projectId: project?.id ?? null }
    const about = { actor, projectId: facts.projectId, target: facts.sessionId }
    try {
      const pty = module.spawn({ command: [shell], cwd, env: shellEnvironment(environment, shell), ...size })
      const session = new Session({
        facts,
        pty,
        size,
        limits: this.#limits,
        now: clock.now,
        onOver: end => this.#close(session, end.reason, { ...about, actor: end.actor ?? actor })
      })
      this.#sessions.set(facts.sessionId, session)
      this.#track(audit({ ...about, action: 'terminal.open', detail: `${shell} in ${cwd}` }))
      return session
    } catch (error) {
      this.#track(
        audit({
          ...about,
          action: 'terminal.open',
          detail: `cannot start ${shell}: ${(error as Error).message}`,
          ok: false
        })
      )
      return 'shell_failed'
    }
  }

  #close({ facts }: Session, reason: EndReason, about: Omit<AuditEvent, 'action'>): void {
    this.#sessions.delete(facts.sessionId)
    this.#track(this.#needs.audit({ ...about, action: 'terminal.close', detail: endings[reason] }))
  }
}

function disabled(why: string): Refusal {
  return new Refusal('forbidden', 'terminal_disabled', `Terminal unavailable: ${why}`)
}

/** The reasons as the audit log shows them. */
const endings: Record<EndReason, string> = {
  exited: 'the shell exited',
  closed: 'closed by its user',
  lost: 'the connection was lost and not resumed',
  idle: 'no input or output for too long',
  disabled: 'switched off in the settings',
  revoked: 'its user has lost the right',
  stopping: 'the server was stopped'
}

/** Why a client gets no session. A browser cannot read the reply to a refused handshake, but it can read this. */
const refusals: Record<
  Extract<TerminalErrorReason, 'session_not_found' | 'too_many_sessions' | 'shell_failed'>,
  [code: number, message: string]
> = {
  session_not_found: [4404, 'Cannot resume the session: it has ended'],
  too_many_sessions: [4429, 'Cannot open a terminal: too many are open. Close one first'],
  shell_failed: [1011, 'Cannot open a terminal: the shell did not start']
}

function sendAway(client: TerminalClient, reason: keyof typeof refusals): void {
  const [code, message] = refusals[reason]
  void client.send({ type: 'error', reason, message })
  client.end(code, message)
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Returns the shell of the user that svc runs as: `$SHELL`, or `/bin/sh` if that is not a usable shell; `cmd.exe` on
 * Windows.
 */
export function findShell(environment: Environment): string {
  if (process.platform === 'win32') return environment['COMSPEC'] ?? 'cmd.exe'
  const own = environment['SHELL'] ?? ''
  return isShell(own) ? own : '/bin/sh'
}

/** Programs that service accounts have instead of a shell. */
const nonShells = new Set(['nologin', 'false', 'true', 'sync'])

function isShell(path: string): boolean {
  if (!isAbsolute(path) || nonShells.has(basename(path))) return false
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/**
 * Returns the directory in which a session starts: the first candidate that exists. The target of a project may not
 * exist yet.
 */
export function findDirectory(wanted: string | null, environment: Environment): string {
  const home = environment['HOME'] || userHome()
  return [wanted, home].find(path => path !== null && isDirectory(path)) ?? '/'
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** Variables of the terminal from which svc itself was started. */
const terminalVariables = [
  'TMUX',
  'TMUX_PANE',
  'STY',
  'WINDOW',
  'WINDOWID',
  'TERMCAP',
  'COLUMNS',
  'LINES',
  'TERM_PROGRAM'
]

/**
 * Returns the environment of a shell: the server's, without its secrets and without the variables of its own terminal.
 * If no locale is set, as is common for services, LANG becomes C.UTF-8. Otherwise the shell would treat each non-ASCII
 * character as several.
 */
export function shellEnvironment(environment: Environment, shell: string): Record<string, string | undefined> {
  const kept = variablesWhere(inheritedEnvironment(environment), name => !terminalVariables.includes(name))
  const hasLocale = ['LC_ALL', 'LC_CTYPE', 'LANG'].some(name => environment[name])
  return {
    HOME: userHome(),
    ...(hasLocale ? {} : { LANG: 'C.UTF-8' }),
    ...kept,
    SHELL: shell,
    TERM: 'xterm-256color',
    COLORTERM: 'truecolor'
  }
}
