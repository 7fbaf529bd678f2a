import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'

/** nginx on PATH, or where Debian puts it for root; null where there is none. */
export function findNginx(): string | null {
  const places = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin'].map(directory => join(directory, 'nginx'))
  return places.find(isThere) ?? null
}

function isThere(path: string): boolean {
  try {
    accessSync(path)
    return true
  } catch {
    return false
  }
}

/** What is given to it runs at the end: a test, or whoever ends what it has started. */
type Bracket = Pick<Test, 'teardown'>

/** What is in front of what: files of nginx's own go into `directory`. */
interface Proxy {
  directory: string
  upstream: string
  location: string
}

/** A real nginx in front of `upstream`, with the README's recipe at `location`; it ends with the test. */
export async function startNginx(t: Bracket, program: string, { directory, upstream, location }: Proxy): Promise<string> {
  const http = 'access_log off;'
  const { url } = await runNginx(t, program, { directory, http, location: `location ${location} {${recipe(upstream)}}` })
  return url
}

/** A real nginx, and the command line that speaks to it. */
export interface Nginx {
  url: string
  /** Before `-s reopen`. */
  words: string[]
}

/** Runs nginx with these directives until the test ends; its files go into `directory`. */
export async function runNginx(
  t: Bracket, program: string, { directory, http, location }: { directory: string; http: string; location: string }
): Promise<Nginx> {
  const port = await freePort()
  for (const name of ['body', 'proxy', 'logs']) mkdirSync(join(directory, name), { recursive: true })
  const configFile = join(directory, 'nginx.conf')
  writeFileSync(configFile, configuration({ directory, port, http, location }))
  const words = ['-e', join(directory, 'logs/error.log'), '-p', directory, '-c', configFile]
  const child = spawn(program, words, { stdio: 'ignore' })
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const url = `http://127.0.0.1:${port}`
  for (let tries = 0; tries < 100; tries++) {
    if (await fetch(url).then(() => true, () => false)) return { url, words: [program, ...words] }
    await sleep(50)
  }
  throw new Error(`nginx did not start: ${execFileSync('cat', [join(directory, 'logs/error.log')]).toString()}`)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

const recipe = (upstream: string): string => `
      proxy_pass ${upstream};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_request_buffering off;
      proxy_buffering off;
      proxy_read_timeout 1h;
      client_max_body_size 500m;
    `

/** Everything nginx writes stays below `directory`, so that a normal user may run it. */
function configuration({ directory, port, http, location }: { directory: string; port: number; http: string; location: string }): string {
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
  server {
    listen 127.0.0.1:${port};
    ${location}
  }
}
`
}
