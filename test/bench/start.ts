/*
 * How long a user waits for nothing: `svc --help` against a bare Node (issue: at most 1.5 times), and `svc serve` until
 * /api/health answers: against a bare Node (within 5 times), and against the least that a server of another make would
 * need, fastify with a route that reads from better-sqlite3 (issue 5: at most as long). Whole processes, from spawn to
 * exit or answer, on a data directory that exists already.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compare, machine } from '../support/bench.js'
import { startListening } from '../support/listening.js'
import { installedFolder } from '../support/rivals.js'
import { bareEnvironment, svcPath } from '../support/svc.js'

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-start-'))
const env = bareEnvironment(directory, {})

/** A server with only what svc also needs: HTTP and a database query. */
const rivalProgram = `
  import Database from 'better-sqlite3'
  import fastify from 'fastify'
  const database = new Database(process.argv[2])
  database.pragma('journal_mode = WAL')
  database.exec('CREATE TABLE IF NOT EXISTS kept (id INTEGER PRIMARY KEY, value TEXT)')
  const count = database.prepare('SELECT count(*) AS kept FROM kept')
  const app = fastify()
  app.get('/api/health', async () => ({ status: 'ok', ...count.get() }))
  console.log((await app.listen({ host: '127.0.0.1', port: 0 })) + '/')
`

function runMs(words: string[]): number {
  const startedAt = performance.now()
  const { status } = spawnSync(process.execPath, words, { cwd: directory, env, stdio: 'ignore' })
  if (status !== 0) throw new Error(`node ${words.join(' ')} ended with ${status}`)
  return performance.now() - startedAt
}

async function answerMs(words: string[]): Promise<number> {
  const server = await startListening(words, { cwd: directory, env, path: 'api/health' })
  await server.stop()
  return server.tookMs
}

async function rival(): Promise<(() => Promise<number>) | null> {
  const folder = await installedFolder({ fastify: '5.6.2', 'better-sqlite3': '12.4.1' })
  if (folder === null) return null
  const program = join(folder, 'server.mjs')
  writeFileSync(program, rivalProgram)
  return () => answerMs([program, join(directory, 'rival.db')])
}

console.log(machine())
try {
  const bare = () => runMs(['-e', '0'])
  await compare({
    name: 'svc --help',
    unit: 'ms',
    rounds: 15,
    contestants: { 'svc --help': () => runMs([svcPath, '--help']), 'node -e 0': bare },
    goals: [{ beside: 'node -e 0', atMost: 1.5 }]
  })
  await compare({
    name: 'svc serve until /api/health answers',
    unit: 'ms',
    rounds: 15,
    contestants: {
      'svc serve': () => answerMs([svcPath, 'serve', '--port', '0']),
      'node -e 0': bare,
      'fastify + better-sqlite3': await rival()
    },
    goals: [
      { beside: 'node -e 0', atMost: 5 },
      { beside: 'fastify + better-sqlite3', atMost: 0.8 }
    ]
  })
} finally {
  rmSync(directory, { recursive: true, force: true })
}
