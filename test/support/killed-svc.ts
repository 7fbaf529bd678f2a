/*
 * A program that runs a command of svc, and kills itself just before the n-th call that changes a file or asks another
 * process: `node killed-svc.js <n> <words…>`. With n = 0 it runs to its end and prints the number of calls. Before a data
 * directory is replaced (carry/backup/place.ts), it prints the new files that were not synced.
 */
import fs, { promises } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import type * as Entry from '../../lib/cli/entry.js'

type Call = (...args: unknown[]) => unknown

const [n = '0', ...words] = process.argv.slice(2)
const synced = new Set<string>()
let calls = 0

function count(name: string, args: unknown[]): void {
  if (++calls === Number(n)) process.kill(process.pid, 'SIGKILL')
  if (name === 'rename' && /\.restored$/.test(String(args[1]))) tellUnsynced(String(args[0]))
}

function tellUnsynced(directory: string): void {
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) tellUnsynced(path)
    else if (entry.isFile() && !synced.has(path)) process.stderr.write(`not synced: ${path}\n`)
  }
}

function watch(object: object, names: string[]): void {
  const calls = object as Record<string, Call>
  for (const name of names) {
    const original = calls[name] as Call
    calls[name] = (...args) => {
      count(name, args)
      return original.apply(object, args)
    }
  }
}

watch(fs, ['open', 'rename', 'unlink', 'write', 'ftruncate', 'writeSync'])
watch(promises, ['mkdir', 'writeFile', 'rename', 'rm', 'rmdir', 'symlink', 'link', 'cp', 'copyFile', 'chmod'])
watch(http, ['request'])
watch(https, ['request'])
const { open } = promises
promises.open = async (...args) => {
  const handle = await open(...args)
  const { sync } = handle
  handle.sync = async () => {
    await sync.call(handle)
    synced.add(String(args[0]))
  }
  return handle
}
syncBuiltinESMExports()

const entry = new URL('../../lib/cli/entry.js', import.meta.url).href
const { main } = (await import(entry)) as typeof Entry
process.exitCode = await main(words, process)
process.stderr.write(`calls: ${calls}\n`)
