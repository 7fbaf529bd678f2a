import { spawn } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { bare } from '../support/bare.js'
import type { EtcdCluster } from '../support/etcd.js'
import { startServeProcess } from '../support/serve-process.js'
import { bareEnvironment, type Ended } from '../support/svc.js'
import { repetitions } from '../support/thorough.js'

/** Shared parts of the tests that kill `svc cluster init` and `svc cluster leave` at each step. */

const program = fileURLToPath(new URL('../support/killed-svc.js', import.meta.url))

/** Runs a command that is killed before its n-th step; 0: it runs to its end. */
export async function killed(n: number, words: string[], { cwd, env }: { cwd: string; env: Record<string, string> }) {
  const child = spawn(...bare(process.execPath, [program, String(n), ...words]), {
    cwd,
    env: bareEnvironment(cwd, env),
    stdio: 'pipe'
  })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => (said[name] += text))
  return new Promise<Ended>(resolve => child.once('close', (code, signal) => resolve({ code, signal, ...said })))
}

/** A command is killed at this many of its steps at most: each one takes some seconds. */
const maxSteps = 40

/** Returns the steps at which a command is killed, spread over all of them; fewer in `make test`. */
export function stepsOf(whole: Ended): number[] {
  const calls = callsOf(whole)
  const count = repetitions(4, Math.min(calls, maxSteps))
  return Array.from({ length: count }, (_, index) => Math.max(1, Math.round(((index + 1) * calls) / count)))
}

function callsOf({ stderr }: Ended): number {
  return Number(/calls: (\d+)/.exec(stderr)?.[1])
}

/** Tests that a command was killed. The number of its calls varies a little, so it may end before one of the last. */
export function wasKilled(t: Test, { code, signal }: Ended, { step, whole }: { step: number; whole: Ended }): void {
  if (code !== 0 || step < 0.9 * callsOf(whole)) t.equal(signal, 'SIGKILL', `step ${step}`)
}

/** A server with a project and two deployments, which was stopped. */
export interface StoppedServer {
  home: string
  site: string
  project: Project
  deployments: Deployment[]
}

export async function stoppedServer(t: Test, cwd: string): Promise<StoppedServer> {
  const site = join(cwd, 'site')
  const server = await startServeProcess(t, cwd)
  const project = await server.createProject({ name: 'Shop', deployPath: site })
  for (const text of ['one', 'two']) await (await server.upload(project, { 'index.html': text })).finished
  const deployments = await server.deployments(project.id)
  await server.stop()
  return { home: server.home, site, project, deployments }
}

/** Copies a data directory for one attempt. */
export function copyOf(home: string, name: string): string {
  const copy = `${home}-${name}`
  cpSync(home, copy, { recursive: true, filter: path => !/svc\.sock/.test(path) })
  return copy
}

/** Writes what a hub needs to reach etcd, and returns the options. */
export function wordsFor(etcd: EtcdCluster, cwd: string): { words: string[]; env: { SVC_ETCD_PASSWORD: string } } {
  writeFileSync(join(cwd, 'etcd-ca.pem'), etcd.options.ca as string)
  const store = `etcd:${etcd.options.endpoints.join(',')}`
  const words = ['--store', store, '--etcd-ca', 'etcd-ca.pem', '--etcd-user', etcd.options.user as string]
  return { words, env: { SVC_ETCD_PASSWORD: etcd.options.password as string } }
}

/** Returns the admin token in config.json. */
export function tokenOf(home: string): string {
  return (JSON.parse(readFileSync(join(home, 'config.json'), 'utf8')) as { adminToken: string }).adminToken
}
