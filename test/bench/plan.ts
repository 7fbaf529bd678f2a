/*
 * `svc plan` against `rsync -nac` on the same trees: 10,000 files of 2 KB, of which 40 differ. Both are processes of
 * their own; the server of the plan runs all the time. rsync reads both trees in any case. The plan reads the tree of
 * the server only if it does not know what it put there.
 *
 *   node plan.js
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { compare, machine, sized } from '../support/bench.js'
import { findProgram } from '../support/programs.js'
import { treeBody } from '../support/planned.js'
import { startServed } from '../support/served.js'
import { svcPath } from '../support/svc.js'

const files = sized(10_000, 50)
const changed = sized(40, 4)
const fileBytes = 2048

function write(directory: string, at: number, salt: string): void {
  const folder = join(directory, `d${at % 100}`)
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `f${at}.js`)
  writeFileSync(path, createHash('shake256', { outputLength: fileBytes }).update(`${at} ${salt}`).digest())
  utimesSync(path, 1_700_000_000, 1_700_000_000)
}

function seconds(program: string, words: string[], { cwd, env }: { cwd: string; env: NodeJS.ProcessEnv }): number {
  const started = performance.now()
  const { status, stderr } = spawnSync(program, words, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] })
  if (status !== 0) throw new Error(`${program}: ${String(stderr)}`)
  return (performance.now() - started) / 1000
}

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-plan-'))
const [site, target, unknown] = ['site', 'target', 'unknown'].map(name => join(directory, name)) as [
  string,
  string,
  string
]
for (let at = 0; at < files; at++) {
  write(site, at, 'first')
  write(unknown, at, at < changed ? 'other' : 'first')
}
const home = join(directory, 'home')
const environment = {
  PATH: process.env['PATH'] ?? '',
  HOME: directory,
  SVC_HOME: home,
  ADMIN_TOKEN: 'bench-admin-token'
}
const served = await startServed({
  command: [process.execPath, svcPath, 'serve', '--port', '0'],
  cwd: directory,
  env: environment
})
try {
  const create = async (name: string, deployPath: string): Promise<NodeJS.ProcessEnv> => {
    const reply = await fetch(`${served.url}/api/projects`, {
      method: 'POST',
      headers: { authorization: `Bearer ${served.adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name, deployPath })
    })
    const { project } = (await reply.json()) as { project: { id: string; token: string } }
    return { ...environment, SVC_SERVER_URL: served.url, SVC_DEPLOY_TOKEN: project.token, BENCH_PROJECT: project.id }
  }
  const owned = await create('owned', target)
  const other = await create('unknown', unknown)
  const words = (env: NodeJS.ProcessEnv, command: string): string[] => [
    svcPath,
    command,
    '--project',
    String(env['BENCH_PROJECT']),
    '--out',
    site
  ]
  seconds(process.execPath, words(owned, 'push'), { cwd: directory, env: owned })
  for (let at = 0; at < changed; at++) write(site, at, 'second')
  const body = await treeBody(site)
  console.log(machine())
  console.log(`body: ${(gzipSync(body).length / files).toFixed(1)} bytes a file, compressed`)
  const run = (env: NodeJS.ProcessEnv) => () => seconds(process.execPath, words(env, 'plan'), { cwd: directory, env })
  const rsync = (to: string) => () =>
    seconds('rsync', ['-nac', `${site}/`, `${to}/`], { cwd: directory, env: environment })
  await compare({
    name: `plan of ${files} files, unchanged on the server since svc put them there`,
    unit: 's',
    contestants: { 'svc plan': run(owned), 'rsync -nac': findProgram('rsync') !== null ? rsync(target) : null },
    goals: [{ beside: 'rsync -nac', atMost: 1.5 }]
  })
  await compare({
    name: `plan of ${files} files that svc does not own`,
    unit: 's',
    contestants: { 'svc plan': run(other), 'rsync -nac': findProgram('rsync') !== null ? rsync(unknown) : null },
    goals: [{ beside: 'rsync -nac', atMost: 2.5 }]
  })
} finally {
  await served.stop()
  rmSync(directory, { recursive: true, force: true })
}
