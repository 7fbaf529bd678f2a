import t from 'tap'
import type { Test } from 'tap'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { disk as realDisk, type Disk } from '../../../lib/core/install/disk.js'
import type { SyncFileSystem } from '../../../lib/core/install/durable.js'
import { extractionStage } from '../../support/extraction.js'
import { makeZip } from '../../support/make-zip.js'
import { snapshot } from '../../support/tree.js'

const ext4 = 0xef53
const tmpfs = 0x01021994

/**
 * A disk of a certain type that records what it is asked to sync, by path, between the lines written to the journal.
 */
function recording(type: number): { disk: Disk; calls: string[] } {
  const calls: string[] = []
  const names = new Map<number, string>()
  const disk: Disk = {
    ...realDisk,
    statfsSync: (() => ({ type })) as unknown as Disk['statfsSync'],
    openSync: ((path: string, ...rest: [string]) => {
      const fd = realDisk.openSync(path, ...rest)
      names.set(fd, path.startsWith('/proc/') ? realDisk.readlinkSync(`/proc/self/fd/${fd}`) : path)
      return fd
    }) as Disk['openSync'],
    writeSync: ((fd: number, bytes: Uint8Array, ...rest: [number, number]) => {
      const line = Buffer.from(bytes).toString()
      if (names.get(fd)?.endsWith('.undo')) calls.push(...(line.match(/^(ready|done)/gm) ?? []))
      return realDisk.writeSync(fd, bytes, ...rest)
    }) as Disk['writeSync'],
    fsyncSync: fd => {
      calls.push(`names ${names.get(fd)}`)
      realDisk.fsyncSync(fd)
    },
    fsync: ((fd: number, done: () => void) => {
      calls.push(`names ${names.get(fd)}`)
      realDisk.fsync(fd, done)
    }) as Disk['fsync'],
    fdatasync: ((fd: number, done: () => void) => {
      calls.push(`contents ${names.get(fd)}`)
      realDisk.fdatasync(fd, done)
    }) as Disk['fdatasync']
  }
  return { disk, calls }
}

const skip = process.platform !== 'linux' && 'statfs has other numbers'
const few = makeZip([
  { name: 'a', data: 'new' },
  { name: 'new/deep/b', data: 'b' },
  { name: 'l', data: 'a', mode: 0o120777 }
])
const many = makeZip(Array.from({ length: 40 }, (_, i) => ({ name: `d${i % 20}/f${i}`, data: String(i) })))

/** The syncs between the lines of the journal, without the data directory. */
async function synced(
  t: Pick<Test, 'testdir'>,
  options: {
    zip: Buffer
    isSecond?: boolean
    type?: number
    isDurable?: boolean
    syncFileSystem?: SyncFileSystem
    before?: (target: string) => void
  }
): Promise<string[]> {
  const stage = extractionStage(t.testdir({ target: { a: 'old' } }))
  options.before?.(stage.target)
  stage.put(options.zip)
  if (options.isSecond) await stage.run()
  const { disk, calls } = recording(options.type ?? ext4)
  const syncFileSystem: SyncFileSystem =
    options.syncFileSystem ??
    (async () => {
      calls.push('whole')
      return true
    })
  await stage.run({ disk, syncFileSystem, isDurable: options.isDurable ?? true })
  const staging = '/.svc-staging-dep_test'
  return calls
    .filter(call => !call.includes(stage.deployments))
    .map(call => call.replace(stage.target, '').replace(staging, '~'))
}

t.test('syncs the contents of a few files before the first rename, and names before the end', { skip }, async t => {
  const calls = await synced(t, { zip: few })
  const ready = calls.indexOf('ready')
  t.strictSame(calls.slice(0, ready).sort(), [
    'contents ~/files/a',
    'contents ~/files/new/deep/b',
    'names ~',
    'names ~/files/new',
    'names ~/files/new/deep'
  ])
  t.strictSame(calls.slice(ready), ['ready', 'names ', 'done', 'names '])
})

t.test('syncs many files with one call', { skip }, async t => {
  t.strictSame(await synced(t, { zip: many }), ['whole', 'names ~', 'ready', 'names ', 'done', 'names '])
  const before = (target: string): void => {
    for (let i = 0; i < 20; i++) mkdirSync(join(target, `d${i}`))
  }
  t.strictSame(
    await synced(t, { zip: many, before }),
    ['whole', 'names ~', 'ready', 'whole', 'done', 'names '],
    'and one call for the names in twenty directories'
  )
})

t.test('syncs many files one by one if one call is not available', { skip }, async t => {
  for (const options of [{ syncFileSystem: async () => false }, { type: 0x6969 }]) {
    const calls = await synced(t, { zip: many, ...options })
    t.equal(calls.filter(call => call.startsWith('contents ~/files/d')).length, 40)
    t.equal(calls.slice(0, calls.indexOf('ready')).filter(call => call.startsWith('names ~/files/d')).length, 20)
    t.notOk(calls.includes('whole'))
  }
})

t.test('syncs nothing in memory or without changes, and only the order if the setting is off', { skip }, async t => {
  t.strictSame(await synced(t, { zip: few, type: tmpfs }), ['ready', 'done', 'names '])
  t.strictSame(await synced(t, { zip: many, isDurable: false }), ['names ~', 'ready', 'names ', 'done', 'names '])
  for (const zip of [few, many]) t.strictSame(await synced(t, { zip, isSecond: true }), ['ready', 'done', 'names '])
})

t.test('does not wait for a sync after an abort, and puts nothing back', async t => {
  const stage = extractionStage(t.testdir({ target: { a: 'old' } }))
  stage.put(many)
  const before = snapshot(stage.target)
  let isAborted = false
  let heard: AbortSignal | undefined
  const syncFileSystem: SyncFileSystem = async (_, signal) => {
    heard = signal
    isAborted = true
    return new Promise(() => {})
  }
  const disk: Disk = { ...realDisk, statfsSync: (() => ({ type: ext4 })) as unknown as Disk['statfsSync'] }
  const check = (): void => {
    if (isAborted) throw new Error('given up')
  }
  await t.rejects(stage.run({ disk, syncFileSystem, check }), /given up/)
  t.equal(heard?.aborted, true, 'the sync gets the abort')
  t.strictSame(snapshot(stage.target), before)
  t.strictSame(readdirSync(stage.deployments), [])
})

t.test('syncs a file of any mode as any user', { skip: process.platform === 'win32' }, async t => {
  const stage = extractionStage(t.testdir({ target: {} }))
  stage.put(
    makeZip([
      { name: 'closed', data: 'x', mode: 0o100100 },
      { name: 'write-only', data: 'y', mode: 0o100200 }
    ])
  )
  let refusals = 0
  const disk: Disk = {
    ...realDisk,
    // The answer of the system to every user but root.
    openSync: ((path: string, flags: string, ...rest: [number]) => {
      if (/files\/(closed|write-only)$/.test(path) && flags === 'r' && (realDisk.lstatSync(path).mode & 0o400) === 0) {
        refusals++
        throw Object.assign(new Error('EACCES: test'), { code: 'EACCES' })
      }
      return realDisk.openSync(path, flags, ...rest)
    }) as Disk['openSync']
  }
  await stage.run({ disk })
  t.equal(refusals, 2)
  t.match(
    snapshot(stage.target).map(line => line.slice(0, line.lastIndexOf(' '))),
    ['closed 100', 'write-only 200']
  )
})

t.test('reports an error of syncing contents before anything is moved', { skip }, async t => {
  const stage = extractionStage(t.testdir({ target: { a: 'old' } }))
  stage.put(few)
  const { disk, calls } = recording(ext4)
  const full = Object.assign(new Error('ENOSPC: test'), { code: 'ENOSPC' })
  disk.fdatasync = ((_: number, done: (error: Error) => void) => done(full)) as Disk['fdatasync']
  await t.rejects(stage.run({ disk }), { code: 'ENOSPC' })
  t.notOk(calls.includes('ready'))
  t.strictSame(
    snapshot(stage.target).map(line => line.replace(/ \d+ /, ' ')),
    ['a old']
  )
})
