import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePort } from '../support/free-port.js'
import { findProgram } from '../support/programs.js'
import { until } from '../support/until.js'
import type { ProxyOptions, RunningProxy } from './contract.js'
import { bodyOf, filled, phrase, recipe } from './recipes.js'

/** nginx on PATH, or where Debian puts it for root; null where there is none. */
export function findNginx(): string | null {
  return findProgram('nginx')
}

/** Registers work for the end of the test or of the program that uses it. */
type Bracket = Pick<Test, 'teardown'>

/** What is in front of what: files of nginx's own go into `directory`. */
interface Proxy {
  directory: string
  upstream: string
  location: string
  /** Replaces the documented `proxy_read_timeout`. */
  readTimeout?: string
}

/**
 * A real nginx in front of `upstream`, without TLS, with the location of docs/proxies.md at `location`; it ends with
 * the test.
 */
export async function startNginx(
  t: Bracket,
  program: string,
  { directory, upstream, location, readTimeout = '1h' }: Proxy
): Promise<string> {
  const body = filled(bodyOf(recipe('nginx', 'location /'), 'location /'), [
    ['http://127.0.0.1:5431', upstream],
    ['proxy_read_timeout 1h', `proxy_read_timeout ${readTimeout}`]
  ])
  const { url } = await runNginx(t, program, {
    directory,
    http: 'access_log off;',
    location: `location ${location} {${body}}`
  })
  return url
}

/** The server of docs/proxies.md, with TLS; it ends with the test. */
export async function startSecureNginx(
  t: Bracket,
  program: string,
  { directory, upstream, base, files }: ProxyOptions
): Promise<RunningProxy> {
  const port = await freePort()
  const pass = upstream.startsWith('/') ? phrase('proxy_pass http://unix:') : 'proxy_pass http://127.0.0.1:5431;'
  const server = filled(recipe('nginx', 'server {'), [
    ['listen 443 ', `listen 127.0.0.1:${port} `],
    ['/etc/ssl/deploy/fullchain.pem', files.cert],
    ['/etc/ssl/deploy/privkey.pem', files.key],
    [
      'proxy_pass http://127.0.0.1:5431;',
      upstream.startsWith('/')
        ? filled(pass, [['/run/svc/svc.sock', upstream]])
        : filled(pass, [['http://127.0.0.1:5431', upstream]])
    ],
    ['location / {', base === '' ? 'location / {' : filled(phrase('location /tools/'), [['/tools/svc', base]])]
  ])
  const { pid } = await run(t, program, {
    directory,
    port,
    configuration: configuration({ directory, http: 'access_log off;', server })
  })
  return { url: `https://localhost:${port}`, pid, spool: join(directory, 'body') }
}

/** A real nginx, and the command line that speaks to it. */
export interface Nginx {
  url: string
  /** Before `-s reopen`. */
  words: string[]
}

/** Runs nginx with these directives until the test ends; its files go into `directory`. */
export async function runNginx(
  t: Bracket,
  program: string,
  { directory, http, location }: { directory: string; http: string; location: string }
): Promise<Nginx> {
  const port = await freePort()
  const server = `server {\n    listen 127.0.0.1:${port};\n    ${location}\n  }`
  const { words } = await run(t, program, {
    directory,
    port,
    configuration: configuration({ directory, http, server })
  })
  return { url: `http://127.0.0.1:${port}`, words: [program, ...words] }
}

/** Runs nginx with this `server` block until the test ends. The block must listen at the port. */
export async function runServer(
  t: Bracket,
  program: string,
  { directory, port, server }: { directory: string; port: number; server: string }
): Promise<void> {
  const http = 'access_log off;'
  await run(t, program, { directory, port, configuration: configuration({ directory, http, server }) })
}

async function run(
  t: Bracket,
  program: string,
  { directory, port, configuration }: { directory: string; port: number; configuration: string }
): Promise<{ words: string[]; pid: number }> {
  for (const name of ['body', 'proxy', 'logs']) mkdirSync(join(directory, name), { recursive: true })
  const configFile = join(directory, 'nginx.conf')
  writeFileSync(configFile, configuration)
  const words = ['-e', join(directory, 'logs/error.log'), '-p', directory, '-c', configFile]
  const child = spawn(program, words, { stdio: 'ignore' })
  endWithTest(t, child)
  await untilListening({ port, child, complaint: () => readFileSync(join(directory, 'logs/error.log'), 'utf8') })
  return { words, pid: child.pid as number }
}

export function endWithTest(t: Bracket, child: ChildProcess): void {
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
  })
}

interface Starting {
  port: number
  child: ChildProcess
  /** Says why nothing listens. */
  complaint(): string
}

/** Waits until a proxy accepts connections, or has ended. */
export async function untilListening({ port, child, complaint }: Starting): Promise<void> {
  const what = (): string => `The proxy did not start: ${complaint()}`
  await until(
    async () => {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(what())
      const socket = connect({ port, host: '127.0.0.1' })
      const isOpen = await new Promise<boolean>(resolve =>
        socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
      )
      socket.destroy()
      return isOpen
    },
    { what }
  )
}

/** Everything nginx writes stays below `directory`, so that a normal user may run it. */
function configuration({ directory, http, server }: { directory: string; http: string; server: string }): string {
  return `
daemon off;
master_process off;
pid ${directory}/nginx.pid;
events { worker_connections 64; }
http {
  ${http}
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/proxy;
  uwsgi_temp_path ${directory}/proxy;
  scgi_temp_path ${directory}/proxy;
  ${server}
}
`
}
