import { execFile, execFileSync, spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, openSync, closeSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import type { EtcdOptions } from '../../lib/cluster/etcd/connection.js'
import { makeSigned, type Identity } from './certificates.js'
import { freePort } from './free-port.js'
import { findProgram } from './programs.js'
import { defaultWithinMs, until } from './until.js'

/*
 * Real etcd (Debian's etcd-server) on this machine: one member or several, by default with TLS and with authentication, as
 * docs/fleet.md describes it. A member can be killed, stopped (SIGSTOP), and started again on its data.
 */

const user = 'svc'
const password = 'a-password-of-svc'
const rootPassword = 'a-password-of-root'

/** A running or killed member. */
export interface Member {
  readonly name: string
  readonly url: string
  readonly isRunning: boolean
  /** Kills it (SIGKILL) and waits for its end. */
  kill(): Promise<void>
  /** Starts it again on its data. Does not wait for it to join. */
  start(): void
  /** Sends a signal. After SIGSTOP, it has stopped: its threads may still answer for a moment. */
  signal(name: NodeJS.Signals): void
  /** The end of its log. */
  log(): string
}

/** A cluster of etcd. */
export interface EtcdCluster {
  members: Member[]
  /** What a hub needs to sign in. */
  options: EtcdOptions & { user?: string; password?: string }
  /** Sends a request to a member as root, and returns its answer. */
  ask(path: string, body?: object, memberAt?: number): Promise<Record<string, unknown>>
  /** Returns the index of the member that leads; -1: none that answers. */
  leader(): Promise<number>
  /** Waits until every running member answers, and knows a leader. */
  ready(): Promise<void>
  /** Saves a snapshot of the first member that runs. */
  keep(name?: string): Promise<void>
  /** Kills all members, restores the snapshot into their data directories, and starts them. */
  goBack(name?: string): Promise<void>
  close(): Promise<void>
}

export interface EtcdWishes {
  size?: number
  tls?: boolean
  auth?: boolean
  /** Additional options of the program. */
  words?: string[]
  directory?: string
}

/** The reason to skip a test that needs etcd; false if it is installed. */
export function withoutEtcd(): string | false {
  return findProgram('etcd') === null && 'etcd is not on this machine (Debian: etcd-server)'
}

/** The reason to skip a test that needs snapshots of etcd; false if its programs are installed. */
export function withoutSnapshots(): string | false {
  return withoutEtcd() || (findProgram('etcdctl') === null && 'etcdctl is not on this machine (Debian: etcd-client)')
}

/** Starts a cluster that is closed when the test ends. */
export async function anEtcd(t: Test, wishes: EtcdWishes = {}): Promise<EtcdCluster> {
  const cluster = await startEtcd(wishes)
  t.teardown(() => cluster.close())
  return cluster
}

/** Starts a cluster and waits until it answers. */
export async function startEtcd(wishes: EtcdWishes = {}): Promise<EtcdCluster> {
  const { size = 1, tls = true, auth = true, words = [] } = wishes
  const top = wishes.directory ?? mkdtempSync(join(tmpdir(), 'svc-etcd-'))
  mkdirSync(top, { recursive: true })
  const scheme = tls ? 'https' : 'http'
  const signed = tls ? makeSigned() : null
  if (signed !== null) writeCertificates(top, signed)
  const addresses: Array<{ name: string; url: string; peer: string }> = []
  for (let at = 0; at < size; at++) {
    const [port, peer] = [await freePort(), await freePort()]
    addresses.push({ name: `e${at + 1}`, url: `${scheme}://127.0.0.1:${port}`, peer: `http://127.0.0.1:${peer}` })
  }
  const initial = addresses.map(({ name, peer }) => `${name}=${peer}`).join(',')
  const members = addresses.map(address => startMember(top, [...wordsOf(address, initial, signed !== null), ...words]))
  const agent = new https.Agent({ keepAlive: false, ...(signed !== null && { ca: signed.authority.cert }) })
  let token: string | null = null

  async function ask(path: string, body: object = {}, memberAt?: number): Promise<Record<string, unknown>> {
    const running = members.filter(({ isRunning }) => isRunning)
    const member = memberAt === undefined ? running[0] : members[memberAt]
    if (member === undefined) throw new Error('No member of etcd is running')
    return post({ url: `${member.url}${path}`, body, token, agent })
  }

  async function leader(): Promise<number> {
    for (const [at, member] of members.entries()) {
      if (!member.isRunning) continue
      const status = await ask('/v3/maintenance/status', {}, at).catch(() => null)
      const header = status?.['header'] as { member_id?: string } | undefined
      if (status !== null && status['leader'] !== undefined && status['leader'] === header?.member_id) return at
    }
    return -1
  }

  async function ready(): Promise<void> {
    for (const [at, { isRunning, name }] of members.entries()) {
      const answers = () =>
        ask('/v3/maintenance/status', {}, at).then(
          ({ leader = '0' }) => leader !== '0',
          () => false
        )
      if (isRunning) await until(answers, { what: `an answer of ${name}` })
    }
  }

  async function signIn(): Promise<void> {
    token = null
    token = ((await ask('/v3/auth/authenticate', { name: 'root', password: rootPassword })) as { token: string }).token
  }

  const control = async (program: string, words: string[]): Promise<void> => {
    const env = {
      ETCDCTL_API: '3',
      ...(signed !== null && { ETCDCTL_CACERT: join(top, 'ca.pem') }),
      ...(auth && { ETCDCTL_USER: `root:${rootPassword}` })
    }
    await promisify(execFile)(program, words, { cwd: top, env })
  }

  async function keep(name = 'kept'): Promise<void> {
    const member = members.find(({ isRunning }) => isRunning) as Member
    // Its own limits are 2 s for the connection and 5 s for the answer, too few for a busy machine.
    const patient = ['--dial-timeout', '60s', '--command-timeout', '60s']
    const given = [...patient, '--endpoints', member.url, 'snapshot', 'save', `${name}.db`]
    await control(findProgram('etcdctl') as string, given)
  }

  async function goBack(snapshot = 'kept'): Promise<void> {
    await Promise.all(members.map(member => member.kill()))
    for (const { name, peer } of addresses) {
      rmSync(join(top, name), { recursive: true })
      // biome-ignore format: an option and its value stay together
      await control(findProgram('etcdutl', 'etcdctl') as string, [
        'snapshot', 'restore', `${snapshot}.db`, '--data-dir', name, '--name', name,
        '--initial-cluster', initial, '--initial-advertise-peer-urls', peer
      ])
    }
    for (const member of members) member.start()
    await ready()
    if (auth) await signIn()
  }

  async function close(): Promise<void> {
    await Promise.all(members.map(member => member.kill()))
    if (wishes.directory === undefined) rmSync(top, { recursive: true, force: true })
  }

  try {
    await ready()
    if (auth) {
      for (const [path, body] of authSteps) await ask(path, body)
      await signIn()
    }
  } catch (error) {
    const logs = members.map(member => member.log()).join('\n')
    await close()
    throw new Error(`etcd did not start: ${(error as Error).message}\n${logs}`, { cause: error })
  }
  const endpoints = members.map(({ url }) => url)
  const options = { endpoints, ...(signed && { ca: signed.authority.cert }), ...(auth && { user, password }) }
  return { members, options, ask, leader, ready, keep, goBack, close }
}

/** A user of its own for svc, which may use its keys only. */
const authSteps: Array<[path: string, body: object]> = [
  ['/v3/auth/user/add', { name: 'root', password: rootPassword }],
  ['/v3/auth/role/add', { name: 'root' }],
  ['/v3/auth/user/grant', { user: 'root', role: 'root' }],
  ['/v3/auth/user/add', { name: user, password }],
  ['/v3/auth/role/add', { name: user }],
  [
    '/v3/auth/role/grant',
    { name: user, perm: { permType: 'READWRITE', key: base64('/svc/'), range_end: base64('/svc0') } }
  ],
  ['/v3/auth/user/grant', { user, role: user }],
  ['/v3/auth/enable', {}]
]

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

function writeCertificates(top: string, { authority, server }: { authority: Identity; server: Identity }): void {
  writeFileSync(join(top, 'ca.pem'), authority.cert)
  writeFileSync(join(top, 'server.pem'), server.cert)
  writeFileSync(join(top, 'server.key'), server.key, { mode: 0o600 })
}

// biome-ignore format: an option and its value stay together
function wordsOf({ name, url, peer }: { name: string; url: string; peer: string }, initial: string, tls: boolean): string[] {
  return [
    '--name', name, '--data-dir', name,
    '--listen-client-urls', url, '--advertise-client-urls', url,
    '--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer,
    '--initial-cluster', initial, '--initial-cluster-state', 'new',
    // The least: each sign-in costs as much as its password was made to cost.
    '--bcrypt-cost', '4',
    ...(tls ? ['--cert-file', 'server.pem', '--key-file', 'server.key'] : [])
  ]
}

function startMember(top: string, words: string[]): Member {
  const program = findProgram('etcd') as string
  const setpriv = findProgram('setpriv')
  const name = words[1] as string
  const path = join(top, `${name}.log`)
  let child: ChildProcess
  let isRunning = false

  function start(): void {
    const log = openSync(path, 'a')
    // With setpriv it ends with the test, even if that is killed.
    const [command, ...before] = setpriv === null ? [program] : [setpriv, '--pdeathsig', 'KILL', program]
    const options = { cwd: top, stdio: ['ignore', log, log] as StdioOptions, env: { PATH: process.env['PATH'] } }
    const current = spawn(command as string, [...before, ...words], options)
    closeSync(log)
    isRunning = true
    current.once('exit', () => {
      if (child === current) isRunning = false
    })
    child = current
  }

  start()
  return {
    name,
    url: words[words.indexOf('--advertise-client-urls') + 1] as string,
    get isRunning() {
      return isRunning
    },
    start,
    async kill() {
      if (!isRunning) return
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
    signal(signal) {
      child.kill(signal)
      const threads = `/proc/${child.pid}/task`
      const hasStopped = (): boolean =>
        readdirSync(threads).every(thread => / [TZX] /.test(readFileSync(join(threads, thread, 'stat'), 'latin1')))
      while (signal === 'SIGSTOP' && isRunning && !hasStopped());
    },
    log: () => readFileSync(path, 'utf8').slice(-4000)
  }
}

interface Question {
  url: string
  body: object
  token: string | null
  agent: https.Agent
}

function post({ url, body, token, agent }: Question): Promise<Record<string, unknown>> {
  const text = JSON.stringify(body)
  const headers = { 'Content-Length': Buffer.byteLength(text), ...(token !== null && { Authorization: token }) }
  return new Promise((resolve, reject) => {
    const given = { method: 'POST', headers, timeout: defaultWithinMs }
    const answer = (response: http.IncomingMessage) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('error', reject)
      response.on('end', () => {
        const said = Buffer.concat(pieces).toString()
        if (response.statusCode === 200) resolve(JSON.parse(said) as Record<string, unknown>)
        else reject(new Error(`etcd answered ${response.statusCode}: ${said}`))
      })
    }
    const request = url.startsWith('https')
      ? https.request(url, { ...given, agent }, answer)
      : http.request(url, given, answer)
    request.on('timeout', () => request.destroy(new Error('etcd did not answer in time')))
    request.on('error', reject)
    request.end(text)
  })
}

/** Returns the version of etcd, for a report. */
export function etcdVersion(): string {
  return execFileSync(findProgram('etcd') as string, ['--version'])
    .toString()
    .split('\n')[0] as string
}
