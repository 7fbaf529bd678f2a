/*
 * Every operation that holds a descriptor, made to fail: by the n-th call to the disk, by an abort at that moment, by
 * input that is cut off. What is open afterwards is what was open before, and nothing was closed twice.
 */
import t, { type Test } from 'tap'
import { once } from 'node:events'
import { createWriteStream, mkdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { createEntryReader } from '../../lib/core/archive/entry-data.js'
import { openArchive } from '../../lib/core/archive/read.js'
import type { ZipSource } from '../../lib/core/archive/source.js'
import { writeZipFile } from '../../lib/core/archive/write-file.js'
import { writerInto } from '../../lib/carry/backup/restore.js'
import { openBackup } from '../../lib/carry/backup/read.js'
import { systemClock } from '../../lib/base/clock.js'
import { Packs } from '../../lib/deploy/packs.js'
import { createIntake } from '../../lib/deploy/intake.js'
import { fileReply } from '../../lib/http/static/file.js'
import { createInflatedFiles } from '../../lib/operate/logs/read/contents.js'
import { createOpenLog, createDeny } from '../../lib/operate/logs/read/open.js'
import { createSearches } from '../../lib/operate/logs/search/search.js'
import { createLogViewer, type LogViewer } from '../../lib/operate/logs/viewer.js'
import { FileWatcher } from '../../lib/operate/logs/tail/watch.js'
import type { LogSource } from '../../lib/model/log-source.js'
import { openFile } from '../../lib/core/install/browse.js'
import { planExport } from '../../lib/carry/transfer/export.js'
import { importPackage } from '../../lib/carry/transfer/import.js'
import { packTarget, writeToFile } from '../../lib/carry/transfer/pack-target.js'
import { createSettings } from '../../lib/projects/settings.js'
import { forgeBackup, smallHome } from '../support/backup.js'
import { watchDescriptors } from '../support/descriptors.js'
import { withDiskHook } from '../support/disk-hook.js'
import { extractionStage } from '../support/extraction.js'
import { startServer } from '../support/http-server.js'
import { makeZip, type EntryPlan } from '../support/make-zip.js'
import { createRandom } from '../support/random.js'
import { openStage } from '../support/store.js'

/** An operation that holds a descriptor while it runs, and none when it has settled. */
interface Operation {
  run(signal: AbortSignal): Promise<unknown>
  /** A file that it reads, which is cut off as well. */
  input?: string
}

if (process.platform !== 'linux') {
  t.plan(0, 'descriptors are listed in /proc, which only Linux has')
  process.exit()
}

const directory = t.testdir()
const at = (...names: string[]): string => join(directory, ...names)
const limits = { maxEntries: 1000, maxExtractedBytes: 1e12 }
const large = Buffer.alloc(1_500_000, 'descriptors ')
const random = createRandom(7)
let made = 0

/** Runs each operation whole, then with a failure at so many of its calls, and with an abort at as many. */
const failuresOfEach = 8
/** Places at which an input is cut off. */
const cutsOfEach = 4

async function checkOperations(t: Test, operations: Record<string, Operation>): Promise<void> {
  for (const [name, { run, input }] of Object.entries(operations)) {
    const descriptors = watchDescriptors()
    const check = async (what: string): Promise<void> => {
      const found = [...(await descriptors.difference()), ...descriptors.faults]
      if (found.length > 0) t.same(found, [], `${name}: ${what}`)
    }
    try {
      let calls = 0
      await withDiskHook(
        () => void calls++,
        () => run(new AbortController().signal)
      )
      await check('whole')
      t.ok(calls > 0, `${name}: ${calls} calls`)
      let failed = 0
      for (let index = 0; index < Math.min(calls, failuresOfEach); index++) {
        // The first ones one by one: there it is opened.
        const nth = index < 4 ? index + 1 : 1 + random.below(calls)
        for (const how of ['fails', 'aborts'] as const) {
          if (!(await endsWell(run, { nth, how }))) failed++
          await check(`call ${nth} ${how}`)
        }
      }
      t.ok(failed > 0, `${name}: ${failed} runs failed`)
      const whole = input === undefined ? null : readFileSync(input)
      for (let index = 0; whole !== null && index < cutsOfEach; index++) {
        const length = random.below(whole.length)
        writeFileSync(input as string, whole.subarray(0, length))
        await run(new AbortController().signal).catch(() => {})
        await check(`cut off after ${length} bytes`)
      }
      if (whole !== null) writeFileSync(input as string, whole)
    } finally {
      descriptors.stop()
    }
  }
}

async function endsWell(
  run: Operation['run'],
  { nth, how }: { nth: number; how: 'fails' | 'aborts' }
): Promise<boolean> {
  const controller = new AbortController()
  let calls = 0
  const onCall = (name: string): void => {
    if (++calls !== nth) return
    if (how === 'fails') throw Object.assign(new Error(`EIO: test, ${name}`), { code: 'EIO', syscall: name })
    controller.abort(new Error('given up'))
  }
  return await withDiskHook(onCall, () => run(controller.signal)).then(
    () => true,
    () => false
  )
}

t.test('archives that are read', async t => {
  const entries: Record<string, EntryPlan> = {
    whole: { name: 'a', data: large, method: 8 },
    stored: { name: 'a', data: large },
    'inflates to more': { name: 'a', data: large, method: 8, size: 600 * 1024 },
    'wrong CRC': { name: 'a', data: large, crc32: 1 },
    'no deflate': { name: 'a', data: large, method: 8, raw: Buffer.alloc(600 * 1024, 0xff) }
  }
  await checkOperations(
    t,
    Object.fromEntries(
      Object.entries(entries).map(([name, entry]) => {
        const path = at(`${name}.zip`)
        writeFileSync(path, makeZip([{ name: 'small', data: 'small', method: 8 }, entry]))
        const read = async (signal: AbortSignal): Promise<void> => {
          const archive = await openArchive(path, limits)
          try {
            const reader = createEntryReader(archive)
            for (const one of archive.entries) await reader.read(one, () => signal.throwIfAborted())
          } finally {
            archive.close()
          }
        }
        const mayFail = name !== 'whole' && name !== 'stored'
        return [
          name,
          {
            run: signal =>
              read(signal).catch(error => {
                if (!mayFail || error.code === 'EIO' || signal.aborted) throw error
              }),
            input: path
          }
        ]
      })
    )
  )
})

t.test('extraction', async t => {
  const stage = extractionStage(at())
  writeFileSync(
    stage.archivePath,
    makeZip([
      { name: 'a', data: 'a' },
      { name: 'd/b', data: large, method: 8 },
      { name: 'd/l', data: '../a', mode: 0o120777 },
      { name: 'c', data: large }
    ])
  )
  const run = async (): Promise<void> => {
    rmSync(stage.target, { recursive: true, force: true })
    await stage.run()
  }
  await checkOperations(t, {
    extraction: {
      run: async signal => {
        await run()
        signal.throwIfAborted()
      },
      input: stage.archivePath
    }
  })
})

t.test('archives that are written', async t => {
  mkdirSync(at('pack/below'), { recursive: true })
  writeFileSync(at('pack/below/small.txt'), 'small')
  writeFileSync(at('pack/medium.txt'), large)
  writeFileSync(at('pack/large.gz'), Buffer.alloc(9 * 1024 * 1024, 1))
  const sources = ['below/small.txt', 'medium.txt', 'large.gz'].map((path): ZipSource => {
    return {
      path,
      kind: 'file',
      source: at('pack', path),
      bytes: readFileSync(at('pack', path)).length,
      mode: 0o644,
      mtimeMs: 0
    }
  })
  await checkOperations(t, {
    'of a target': {
      async run(signal) {
        const { note } = await packTarget({ target: at('pack'), ignore: [], ignoreBuiltin: false, signal }, sources =>
          writeToFile(at(`packed-${made++}.zip`), sources, signal)
        )
        if (note !== null) throw new Error(note)
      }
    },
    'to a file': {
      async run(signal) {
        const file = await open(at(`written-${made++}.zip`), 'wx')
        try {
          await writeZipFile(sources, file, { signal, level: 1 })
        } finally {
          await file.close()
        }
      }
    }
  })
})

t.test('uploads that come in', async t => {
  const home = { deployments: at('intake'), tmp: at('intake-tmp') }
  const files = {
    upload: (id: string) => join(home.tmp, `${id}.zip`),
    archive: (id: string) => join(home.deployments, `${id}.zip`),
    packs: new Packs(home.deployments)
  }
  const intake = createIntake({
    home: home as never,
    files: files as never,
    ids: { token: () => `${made++}` } as never,
    clock: systemClock
  })
  await checkOperations(t, {
    upload: {
      async run(signal) {
        const { path, discard } = await intake.receive(Readable.from([large, large]), { limitBytes: 1e9, signal })
        await intake.keep(path, `dep_${made++}`)
        await discard()
      }
    }
  })
})

t.test('packages', async t => {
  mkdirSync(at('store/deployments'), { recursive: true })
  const { directory: home, ...stage } = await openStage({
    testdir: () => at('store'),
    teardown: end => t.teardown(() => void end())
  })
  const needs = {
    ...stage,
    home: { directory: home, deployments: at('store/deployments'), tmp: at('store/tmp') },
    version: 'test',
    audit: { record: async () => {}, within: () => {} },
    settings: createSettings({ ...stage }),
    deployments: {
      hasRunning: () => false,
      note: async () => ({ settle: async () => {} }),
      signers: () => () => [],
      readOutput: async () => ({ text: '', truncated: false }),
      restore: async () => {}
    }
  }
  const actor = { name: 'test', ip: null }
  const project = { id: 'proj_a', name: 'A', deployPath: '/srv/svc-test/a', token: 'token-of-a' }
  const deployment = { id: 'dep_a', projectId: 'proj_a', status: 'success', startTime: '2026-01-31T12:00:00.000Z' }
  const path = at('package.zip')
  const record = (name: string, value: unknown): EntryPlan => ({
    name: `svc-export/${name}`,
    data: JSON.stringify(value),
    method: 8
  })
  writeFileSync(
    path,
    makeZip([
      record('manifest.json', { schemaVersion: 1 }),
      record('projects.json', [project]),
      record('deployments.json', [deployment]),
      { name: 'svc-export/outputs/dep_a.log', data: large, method: 8 },
      { name: 'svc-export/artifacts/proj_a.zip', data: makeZip([{ name: 'a', data: 'a' }]) }
    ])
  )
  const request = {
    strategy: 'skip-existing',
    restoreArtifacts: true,
    accessSettings: false,
    dryRun: true,
    actor
  } as const
  await checkOperations(t, {
    import: { run: signal => importPackage(needs, path, { ...request, signal }), input: path }
  })
  await importPackage(needs, path, { ...request, dryRun: false })
  await checkOperations(t, {
    export: {
      async run(signal) {
        const plan = planExport(needs, {
          projects: null,
          artifacts: true,
          logs: true,
          recent: null,
          ignore: [],
          ignoreBuiltin: true,
          actor
        })
        const out = createWriteStream(at(`export-${made++}.zip`)).on('error', () => {})
        try {
          await plan.write(out, { signal })
        } finally {
          if (!out.closed) await new Promise<void>(closed => void out.once('close', () => closed()).destroy())
        }
      }
    }
  })
})

t.test('backups', async t => {
  const path = at('backup.zip')
  await forgeBackup(path, { ...(await smallHome(at('home'))), 'deployments/dep_large.log': large })
  await checkOperations(t, {
    backup: {
      async run(signal) {
        const to = at(`restored-${made++}`)
        mkdirSync(to)
        const backup = await openBackup(path, { signal })
        try {
          await backup.readAll({ signal, write: writerInto(file => join(to, file.path.replaceAll('/', '_'))) })
        } finally {
          backup.close()
        }
      },
      input: path
    }
  })
})

t.test('logs', async t => {
  // The first watcher of a process opens what all of them share for good.
  watch(directory).close()
  const lines = Array.from(
    { length: 20_000 },
    (_, index) => `line ${index}${index % 500 === 0 ? ' needle' : ''}\n`
  ).join('')
  writeFileSync(at('app.log'), lines)
  writeFileSync(at('app.log.1'), gzipSync(lines))
  const query = {
    q: 'needle',
    isRegex: false,
    ignoresCase: false,
    maxHits: 10,
    context: 1,
    fromOffset: 0,
    toOffset: undefined
  }
  const uses: Record<string, (viewer: LogViewer, source: LogSource, signal: AbortSignal) => Promise<unknown>> = {
    window: (viewer, source, signal) =>
      viewer.range(source, { direction: 'backward', offset: undefined, sizeBytes: 1000, signal }),
    meta: (viewer, source, signal) => viewer.meta(source, signal),
    async download(viewer, source, signal) {
      for await (const block of viewer.read(source, signal)) if (block.length === 0) signal.throwIfAborted()
    },
    search: (viewer, source, signal) => viewer.search(source, { ...query, signal, caller: 'somebody' }, async () => {}),
    async tail(viewer, source, signal) {
      const enough = new AbortController()
      signal.addEventListener('abort', () => enough.abort(signal.reason), { once: true })
      const end = async (): Promise<void> => enough.abort(new Error('enough'))
      await viewer.follow(source, { tailLines: 10, signal: enough.signal }, end).catch(error => {
        if (signal.aborted || error.code === 'EIO') throw error
      })
      signal.throwIfAborted()
    }
  }
  const operations: Record<string, Operation> = {}
  for (const [use, look] of Object.entries(uses)) {
    for (const name of ['app.log', 'app.log.1']) {
      if (use === 'tail' && name === 'app.log.1') continue
      const source = {
        id: 's',
        projectId: 'p',
        label: 'l',
        filePath: at(name),
        kind: 'plain',
        sortOrder: 0,
        createdAt: '',
        updatedAt: ''
      } as const
      operations[`${use} of ${name}`] = {
        async run(signal) {
          const viewer = createLogViewer({
            openLog: createOpenLog({ deny: createDeny([]), secrets: [] }),
            inflated: createInflatedFiles({ tmp: directory }),
            watcher: new FileWatcher(),
            searches: createSearches(),
            clock: systemClock
          })
          try {
            await look(viewer, source, signal)
            signal.throwIfAborted()
          } finally {
            await viewer.close()
          }
        },
        input: source.filePath
      }
    }
  }
  await checkOperations(t, operations)
})

t.test('downloads', async t => {
  mkdirSync(at('site'))
  writeFileSync(at('site/file'), Buffer.alloc(8 * 1024 * 1024, 1))
  const { url } = await startServer(t, [
    {
      method: 'GET',
      path: '/file',
      auth: 'public',
      handle: () => fileReply({ file: () => openFile(at('site'), 'file') })
    }
  ])
  await checkOperations(t, {
    download: {
      async run(signal) {
        const sending = get(`${url}/file`, { agent: false, signal })
        const [reply] = await once(sending, 'response')
        if (reply.statusCode !== 200) throw new Error(String(reply.statusCode))
        for await (const chunk of reply) if (chunk.length === 0) throw new Error('no bytes')
      }
    }
  })
})
