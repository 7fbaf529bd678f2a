import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { CrashPlaces } from './crash-needs.js'
import { createCrashClient, type CrashClient } from './crash-client.js'
import { bare } from './bare.js'
import { bareEnvironment, svcPath } from './svc.js'
import { defaultWithinMs } from './until.js'

/** A server that will be killed. */
export interface CrashServer {
  pid: number
  /** Resolves with the address when the server listens; null if it ended before. */
  listens: Promise<string | null>
  said(): string
  isRunning(): boolean
  /** Sends SIGTERM. */
  stop(): void
  /** Sends SIGKILL to the server only. Resolves when it has ended. */
  kill(): Promise<void>
}

const steppedClock = new URL('stepped-clock.js', import.meta.url).href

/** Starts a server whose clock is `aheadMs` ahead of the machine's. */
export function startCrashServer(base: string, { home, temporary }: CrashPlaces, aheadMs = 0): CrashServer {
  const env = bareEnvironment(base, { SVC_HOME: home, TMPDIR: temporary, CLOCK_AHEAD_MS: String(aheadMs) })
  const clock = aheadMs === 0 ? [] : ['--import', steppedClock]
  const child: ChildProcess = spawn(...bare(process.execPath, [...clock, svcPath, 'serve', '--port', '0']), {
    cwd: base,
    env,
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const ended = once(child, 'exit')
  let [out, err] = ['', '']
  const listens = new Promise<string | null>(resolve => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      out += text
      const url = /^svc listens on (\S+?)\/?$/m.exec(out)?.[1]
      if (url !== undefined) resolve(url)
    })
    void ended.then(() => resolve(null))
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (err += text))
  return {
    pid: child.pid as number,
    listens,
    said: () => err,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    stop: () => void child.kill('SIGTERM'),
    async kill() {
      child.kill('SIGKILL')
      await ended
      // Scripts hold these pipes no longer than they run; nothing of theirs is waited for.
      child.stdout?.destroy()
      child.stderr?.destroy()
    }
  }
}

const pollMs = 5
const notYet = new Set(['starting', 'unhealthy'])

/**
 * Asks for health until it is good. Until then it must be 503 with `starting`, or with `unhealthy` on a disk that is
 * busy for longer than a probe waits. Returns how often it said so; null if the server ended or never became healthy.
 */
export async function awaitHealth(
  url: string,
  complain: (sentence: string) => void
): Promise<{ client: CrashClient; startings: number } | null> {
  const client = createCrashClient(url)
  for (let startings = 0, untilMs = performance.now() + defaultWithinMs; performance.now() < untilMs; startings++) {
    const answer = await client.call('GET', '/api/health', '')
    if (answer === null) return null
    if (answer.status === 200) return { client, startings }
    if (answer.status !== 503 || !notYet.has(String(answer.body?.status)))
      complain(`health during a start: ${answer.status} ${answer.text.slice(0, 200)}`)
    await new Promise(resolve => setTimeout(resolve, pollMs))
  }
  return null
}
