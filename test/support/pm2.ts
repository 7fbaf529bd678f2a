import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installedFolder } from './rivals.js'
import { defaultWithinMs } from './until.js'

export interface RealPm2 {
  /** Variables for processes that must find it: PATH with it first, and its own PM2_HOME. */
  env: { PATH: string; PM2_HOME: string }
  run(...words: string[]): { status: number | null; stdout: string }
}

/** Installs the real PM2 from npm, with a daemon that ends with the test; null if npm cannot install it. */
export async function realPm2(t: { teardown(work: () => unknown): void }): Promise<RealPm2 | null> {
  const folder = await installedFolder({ pm2: '7.0.4' })
  if (folder === null) return null
  const bin = join(folder, 'node_modules/.bin')
  // Short: the daemon's sockets lie in it.
  const directory = mkdtempSync(join(tmpdir(), 'svc-pm2-'))
  const env = { PATH: `${bin}:${process.env['PATH']}`, PM2_HOME: directory }
  const run: RealPm2['run'] = (...words) => {
    const { status, stdout } = spawnSync(join(bin, 'pm2'), words, {
      env: { ...env, HOME: directory },
      encoding: 'utf8',
      timeout: defaultWithinMs
    })
    return { status, stdout }
  }
  t.teardown(() => {
    run('kill')
    rmSync(directory, { recursive: true, force: true })
  })
  return { env, run }
}

/** A program `pm2` whose list is `listing`, and a daemon that listens: svc asks pm2 only if one does. */
export interface StandInPm2 {
  env: { PATH: string; PM2_HOME: string }
  daemon: Server
  /** Puts the program there. */
  install(listing: unknown): void
}

/** Listens where the daemon of the PM2_HOME that it returns would. */
export function listenAsDaemon(t: { teardown(work: () => unknown): void }) {
  // Short: the path of a socket has a limit.
  const directory = mkdtempSync(join(tmpdir(), 'svc-pm2-'))
  const daemon = createServer().listen(join(directory, 'rpc.sock'))
  t.teardown(() => {
    daemon.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return { daemon, directory }
}

/** Creates a directory for a stand-in of PM2, as PATH and PM2_HOME name it. */
export function standInPm2(t: { teardown(work: () => unknown): void }): StandInPm2 {
  const { daemon, directory } = listenAsDaemon(t)
  return {
    daemon,
    env: { PATH: directory, PM2_HOME: directory },
    install(listing) {
      const program = join(directory, 'pm2')
      writeFileSync(program, `#!/bin/sh\necho '${JSON.stringify(listing)}'\n`)
      chmodSync(program, 0o755)
    }
  }
}
