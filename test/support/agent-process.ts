import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Test } from 'tap'
import { layDatabase } from './new-database.js'
import { tokenSaid } from './serve-process.js'
import { bare } from './bare.js'
import { bareEnvironment, svcPath } from './svc.js'

/** A real `svc agent`, ended after the test. */
export interface AgentProcess {
  url: string
  adminToken: string
  home: string
  pid: number
  child: ChildProcess
  /** Its stdout and stderr so far. */
  said(): string
  /** Waits for a text on either. */
  says(pattern: RegExp): Promise<void>
  /** Ends it and waits. Returns its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
  /** Calls its API with the admin token. */
  api<T>(method: string, path: string, body?: unknown): Promise<T>
}

/** Starts an agent with a data directory below `cwd`, and waits until it listens. */
export async function startAgentProcess(
  t: Pick<Test, 'teardown'>,
  cwd: string,
  words: string[] = [],
  { env = {}, nodeWords = [] }: { env?: Record<string, string>; nodeWords?: string[] } = {}
): Promise<AgentProcess> {
  const environment = bareEnvironment(cwd, { SVC_HOME: join(cwd, 'agent-home'), ...env })
  await layDatabase(environment['SVC_HOME'] as string)
  const child = spawn(...bare(process.execPath, [...nodeWords, svcPath, 'agent', ...words]), {
    cwd,
    env: environment,
    stdio: 'pipe'
  })
  const ended = once(child, 'close') as Promise<[number | null]>
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  let [stdout, all] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    all += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (all += text))
  let hasEnded = false
  void ended.then(() => (hasEnded = true))
  const more = async (): Promise<void> => {
    // A process that was killed has no exit code.
    if (hasEnded) throw new Error(`svc agent ended: ${all}`)
    await Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data'), ended])
  }
  while (!stdout.includes('Data directory: ')) await more()
  const url = /^svc listens on (\S+?)\/?$/m.exec(stdout)?.[1] as string
  const adminToken = tokenSaid(stdout, environment)
  return {
    url,
    adminToken,
    home: environment['SVC_HOME'] as string,
    pid: child.pid as number,
    child,
    said: () => all,
    async says(pattern) {
      while (!pattern.test(all)) await more()
    },
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      return (await ended)[0]
    },
    async api<T>(method: string, path: string, body?: unknown): Promise<T> {
      const response = await fetch(url + path, {
        method,
        headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) })
      })
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
      return (await response.json()) as T
    }
  }
}
