/*
 * Deployments that remove and bring back files, each by the time between their start and their end on the server:
 *
 * - an exact rollback of 10,000 changed small files, against the deployment that changed them;
 * - a deployment that removes 10,000 files, against `rsync -a --delete` of the same trees.
 *
 *   node back.js
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compare, machine, sized } from '../support/bench.js'
import { findProgram } from '../support/programs.js'
import { startServed } from '../support/served.js'
import { svcPath } from '../support/svc.js'

const files = sized(10_000, 20)
const fileBytes = 2048

function writeSite(directory: string, salt: string): void {
  for (let at = 0; at < files; at++) {
    const folder = join(directory, `d${at % 100}`)
    mkdirSync(folder, { recursive: true })
    const contents = createHash('shake256', { outputLength: fileBytes }).update(`${at} ${salt}`).digest()
    writeFileSync(join(folder, `f${at}.js`), contents)
  }
}

const directory = mkdtempSync(join(tmpdir(), 'svc-bench-back-'))
const place = (name: string): string => join(directory, name)
writeSite(place('first'), 'first')
writeSite(place('second'), 'second')
for (const name of ['one', 'first', 'second']) {
  mkdirSync(place(name), { recursive: true })
  writeFileSync(join(place(name), 'index.html'), 'index')
}
const environment = {
  PATH: process.env['PATH'] ?? '',
  HOME: directory,
  SVC_HOME: place('home'),
  ADMIN_TOKEN: 'bench-admin-token'
}
const command = [process.execPath, svcPath, 'serve', '--port', '0'] as const
const served = await startServed({ command, cwd: directory, env: environment })

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  // spawnSync blocks this process for longer than the server keeps a connection open.
  const headers = {
    authorization: `Bearer ${served.adminToken}`,
    'content-type': 'application/json',
    connection: 'close'
  }
  const reply = await fetch(`${served.url}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) })
  })
  if (!reply.ok) throw new Error(await reply.text())
  return (await reply.json()) as T
}

interface Ran {
  id: string
  startTime: string
  endTime: string
}

/** A project, and commands about it. */
async function createSite(name: string) {
  const deployPath = place(`target-${name}`)
  const created = await ask<{ project: { id: string; token: string } }>('POST', '/api/projects', {
    name,
    deployPath,
    policy: { pruneByDeployToken: true }
  })
  const { id, token } = created.project

  /** Runs a command, and returns its deployment and the seconds that it took on the server. */
  async function run(
    words: string[],
    svcToken: Record<string, string>
  ): Promise<{ deployId: string; seconds: number }> {
    const env = { ...environment, SVC_SERVER_URL: served.url, ...svcToken }
    const { status, stderr, stdout } = spawnSync(process.execPath, [svcPath, ...words], {
      cwd: directory,
      env,
      encoding: 'utf8'
    })
    if (status !== 0) throw new Error(`svc ${words[0]} ended with ${status}: ${stderr}${stdout}`)
    const path = `/api/logs?projectId=${id}&limit=1`
    const deployments = await ask<Ran[]>('GET', path)
    const [{ id: deployId, startTime, endTime }] = deployments as [Ran]
    return { deployId, seconds: (Date.parse(endTime) - Date.parse(startTime)) / 1000 }
  }

  return {
    deployPath,
    push: (site: string, ...more: string[]) =>
      run(['push', '--project', id, '--out', place(site), ...more], { SVC_DEPLOY_TOKEN: token }),
    rollback: (to: string) => run(['rollback', id, '--to', to, '--exact', '--yes'], { SVC_TOKEN: served.adminToken })
  }
}

try {
  console.log(machine())
  await ask('PUT', '/api/settings', { keep_archives: '100', keep_undo: '100' })
  const changed = await createSite('changed')
  const { deployId } = await changed.push('first')
  await compare({
    name: `exact rollback of ${files} changed files`,
    unit: 's',
    contestants: {
      rollback: async () => {
        await changed.push('second')
        return (await changed.rollback(deployId)).seconds
      },
      deployment: async () => {
        const { seconds } = await changed.push('second')
        await changed.rollback(deployId)
        return seconds
      }
    },
    goals: [{ beside: 'deployment', atMost: 1.2 }]
  })

  const pruned = await createSite('pruned')
  const copy = place('copy')
  await compare({
    name: `removal of ${files} files that a new release lacks`,
    unit: 's',
    contestants: {
      'svc push --prune': async () => {
        await pruned.push('first')
        return (await pruned.push('one', '--prune', 'force')).seconds
      },
      'rsync -a --delete':
        findProgram('rsync') === null
          ? null
          : () => {
              cpSync(place('first'), copy, { recursive: true })
              const started = performance.now()
              const { status } = spawnSync('rsync', ['-a', '--delete', `${place('one')}/`, `${copy}/`])
              if (status !== 0) throw new Error('rsync failed')
              return (performance.now() - started) / 1000
            }
    }
  })
} finally {
  await served.stop()
  rmSync(directory, { recursive: true, force: true })
}
