/*
 * How long a user waits for nothing: `svc --help` against a bare Node (issue: at most 1.5 times), and `svc serve` until
 * /api/health answers (within 5 times of that). Whole processes, from spawn to exit or answer, on a data directory that
 * exists already.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compare, machine } from '../support/bench.js'
import { bareEnvironment, svcPath } from '../support/svc.js'

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-start-'))
const env = bareEnvironment(directory, {})

function runMs(words: string[]): number {
  const startedAt = performance.now()
  const { status } = spawnSync(process.execPath, words, { cwd: directory, env, stdio: 'ignore' })
  if (status !== 0) throw new Error(`node ${words.join(' ')} ended with ${status}`)
  return performance.now() - startedAt
}

async function serveMs(): Promise<number> {
  const startedAt = performance.now()
  const server = spawn(process.execPath, [svcPath, 'serve', '--port', '0'], {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ended = once(server, 'exit')
  let said = ''
  server.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  while (!/http:\S+\n/.test(said)) await once(server.stdout, 'data')
  const [answer] = (await once(get(`${/http:\S+/.exec(said)?.[0]}api/health`, { agent: false }), 'response')) as [
    IncomingMessage
  ]
  const tookMs = performance.now() - startedAt
  if (answer.statusCode !== 200) throw new Error(`/api/health answered ${answer.statusCode}`)
  await once(answer.resume(), 'close')
  server.kill()
  await ended
  return tookMs
}

console.log(machine())
try {
  const bare = () => runMs(['-e', '0'])
  await compare({
    name: 'svc --help',
    unit: 'ms',
    rounds: 15,
    contestants: { 'svc --help': () => runMs([svcPath, '--help']), 'node -e 0': bare },
    target: 'at most 1.5 times node -e 0'
  })
  await compare({
    name: 'svc serve until /api/health answers',
    unit: 'ms',
    rounds: 9,
    contestants: { 'svc serve': serveMs, 'node -e 0': bare },
    target: 'within 5 times node -e 0'
  })
} finally {
  rmSync(directory, { recursive: true, force: true })
}
