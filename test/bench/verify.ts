/*
 * The verification of a project against `sha256sum` over the same files: 10,000 files of 2 KB, and 40 files of 5 MB.
 * The server runs all the time. sha256sum is a process of its own with one thread, after `find | sort`; the
 * verification also compares permissions, names what differs, and follows no link.
 *
 *   node verify.js
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compare, machine, sized } from '../support/bench.js'
import { findProgram } from '../support/programs.js'
import { startServed } from '../support/served.js'
import { svcPath } from '../support/svc.js'

const sets = [
  { name: 'small', files: sized(10_000, 20), fileBytes: 2048 },
  { name: 'large', files: sized(40, 2), fileBytes: sized(5 * 1024 * 1024, 1024) }
]

function write(directory: string, at: number, bytes: number): void {
  const folder = join(directory, `d${at % 100}`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `f${at}.js`), createHash('shake256', { outputLength: bytes }).update(`${at}`).digest())
}

function seconds(program: string, words: string[], { cwd, env }: { cwd: string; env: NodeJS.ProcessEnv }): number {
  const started = performance.now()
  const { status, stderr } = spawnSync(program, words, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] })
  if (status !== 0) throw new Error(`${program}: ${String(stderr)}`)
  return (performance.now() - started) / 1000
}

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-verify-'))
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

async function verify(projectId: string, token: string, files: number): Promise<number> {
  const started = performance.now()
  const reply = await fetch(`${served.url}/api/projects/${projectId}/verify`, {
    headers: { authorization: `Bearer ${token}` }
  })
  const last = JSON.parse((await reply.text()).trim().split('\n').at(-1) ?? '') as { ok?: number }
  if (last.ok !== files) throw new Error(`The verification ended with ${JSON.stringify(last)}`)
  return (performance.now() - started) / 1000
}

try {
  console.log(machine())
  for (const { name, files, fileBytes } of sets) {
    const [site, target] = [join(directory, `${name}-site`), join(directory, `${name}-target`)]
    for (let at = 0; at < files; at++) write(site, at, fileBytes)
    const reply = await fetch(`${served.url}/api/projects`, {
      method: 'POST',
      headers: { authorization: `Bearer ${served.adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name, deployPath: target })
    })
    const { project } = (await reply.json()) as { project: { id: string; token: string } }
    const env = { ...environment, SVC_SERVER_URL: served.url, SVC_DEPLOY_TOKEN: project.token }
    const run = (...words: string[]) => seconds(process.execPath, [svcPath, ...words], { cwd: directory, env })
    run('push', '--project', project.id, '--out', site)
    const sums = 'find . -type f -print0 | sort -z | xargs -0 sha256sum'
    await compare({
      name: `verification of ${files} files of ${fileBytes} bytes`,
      unit: 's',
      contestants: {
        'GET verify': () => verify(project.id, project.token, files),
        'openssl dgst -sha256':
          findProgram('openssl') !== null
            ? () => seconds('sh', ['-c', sums.replace('sha256sum', 'openssl dgst -sha256')], { cwd: target, env })
            : null,
        sha256sum: findProgram('sha256sum') !== null ? () => seconds('sh', ['-c', sums], { cwd: target, env }) : null
      },
      goals: [{ beside: 'sha256sum', atMost: 1 }]
    })
  }
} finally {
  await served.stop()
  rmSync(directory, { recursive: true, force: true })
}
