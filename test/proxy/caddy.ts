import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { foreignName, publicName, type ProxyOptions, type RunningProxy } from './contract.js'
import { freePort } from '../support/free-port.js'
import { findProgram } from '../support/programs.js'
import { endWithTest, untilListening } from './nginx.js'
import { filled, phrase, recipe } from './recipes.js'

/** Caddy on PATH; null where there is none. */
export function findCaddy(): string | null {
  return findProgram('caddy')
}

/** The site of docs/proxies.md, with TLS; it ends with the test. Its files go into `directory`. */
export async function startCaddy(
  t: Test,
  program: string,
  { directory, upstream, base, files }: ProxyOptions
): Promise<RunningProxy> {
  const port = await freePort()
  const atRoot = 'reverse_proxy 127.0.0.1:5431 {'
  const pass = upstream.startsWith('/')
    ? `${filled(phrase('reverse_proxy unix/'), [['/run/svc/svc.sock', upstream]])} {`
    : atRoot.replace('127.0.0.1:5431', new URL(upstream).host)
  const below = recipe('caddy', '@svc')
    .replaceAll('/tools/svc', base)
    .trimEnd()
    .replace('127.0.0.1:5431', upstream.startsWith('/') ? `unix/${upstream}` : new URL(upstream).host)
  const site = filled(recipe('caddy', 'deploy.example.org'), [
    [
      'deploy.example.org {',
      `${['localhost', publicName, foreignName].map(name => `https://${name}:${port}`).join(', ')} {\n  bind 127.0.0.1`
    ],
    ['/etc/ssl/deploy/fullchain.pem', files.cert],
    ['/etc/ssl/deploy/privkey.pem', files.key],
    [atRoot, base === '' ? pass : below]
  ])
  const pid = await runCaddy(t, program, { directory, port, site })
  return { url: `https://localhost:${port}`, pid, spool: null }
}

/** Runs Caddy with this site, which must use the port, until the test ends. Returns its process id. */
export async function runCaddy(
  t: Test,
  program: string,
  { directory, port, site }: { directory: string; port: number; site: string }
): Promise<number> {
  mkdirSync(directory, { recursive: true })
  const configFile = join(directory, 'Caddyfile')
  // No administration port and no automatic certificates.
  writeFileSync(configFile, `{\n  admin off\n  auto_https off\n  servers {\n    protocols h1 h2\n  }\n}\n${site}`)
  const env = { PATH: process.env['PATH'] ?? '', HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory }
  const child = spawn(program, ['run', '--config', configFile, '--adapter', 'caddyfile'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env
  })
  endWithTest(t, child)
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  await untilListening({ port, child, complaint: () => said })
  return child.pid as number
}
