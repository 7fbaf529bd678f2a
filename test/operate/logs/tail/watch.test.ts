import t from 'tap'
import type { Test } from 'tap'
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FileWatcher, createSharedLooks, type FileWatch } from '../../../../lib/operate/logs/tail/watch.js'
import { until } from '../../../support/until.js'

const never = 3_600_000
const { signal } = new AbortController()

function stageOf(t: Test, pollMs: number) {
  const directory = t.testdir({ 'a.log': 'one\n', 'b.log': 'one\n', sub: {} })
  const watcher = new FileWatcher({ pollMs })
  t.teardown(() => watcher.close())
  return {
    directory,
    at: (name: string): string => join(directory, name),
    watcher,
    watch: (name: string) => watcher.watch(join(directory, name))
  }
}

/** Waits until a watch is set up, which it reports itself. */
const stands = (watch: FileWatch): Promise<void> => watch.woken(0, { signal })

/** Does something, and waits until the watch has reported it. */
async function wakes(watch: FileWatch, work: () => void): Promise<void> {
  const since = watch.wakes
  work()
  await watch.woken(since, { signal })
}

t.test('wakes the followers of a file by a notice of its directory, without a poll', async t => {
  const { at, watch } = stageOf(t, never)
  const [first, second, other] = [watch('a.log'), watch('a.log'), watch('b.log')]
  await Promise.all([first, second, other].map(stands))
  const before = other.wakes
  await Promise.all([wakes(first, () => appendFileSync(at('a.log'), 'two\n')), second.woken(second.wakes, { signal })])
  await wakes(first, () => renameSync(at('a.log'), at('a.log.1')))
  await wakes(second, () => writeFileSync(at('a.log'), 'new\n'))
  t.equal(other.wakes, before, 'the other file has not changed')
  first.release()
  first.release()
  await wakes(second, () => appendFileSync(at('a.log'), 'three\n'))
  second.release()
  const end = first.wakes
  await wakes(other, () => appendFileSync(at('b.log'), 'two\n'))
  appendFileSync(at('a.log'), 'four\n')
  await wakes(other, () => appendFileSync(at('b.log'), 'three\n'))
  t.equal(first.wakes, end, 'it has no followers any more')
})

t.test('watches the target of a link, also after the link has changed', async t => {
  const { at, watch } = stageOf(t, 5)
  symlinkSync(at('a.log'), at('sub/current'))
  const link = watch('sub/current')
  await stands(link)
  await wakes(link, () => appendFileSync(at('a.log'), 'two\n'))
  await wakes(link, () => {
    symlinkSync(at('b.log'), at('sub/next'))
    renameSync(at('sub/next'), at('sub/current'))
  })
  await wakes(link, () => appendFileSync(at('b.log'), 'two\n'))
})

/** Returns the directories that the kernel watches for this process: proc(5), fdinfo. */
function watchedDirectories(): number {
  const infos = readdirSync('/proc/self/fdinfo').map(name => {
    try {
      return readFileSync(`/proc/self/fdinfo/${name}`, 'utf8')
    } catch {
      return '' // the descriptor of the listing itself
    }
  })
  return infos
    .join('')
    .split('\n')
    .filter(line => line.startsWith('inotify ')).length
}

const skip = process.platform === 'linux' ? false : 'only Linux tells what it watches'
t.test(
  'watches two names of one file separately, and a directory as long as a file in it is watched',
  { skip },
  async t => {
    const { at, watch } = stageOf(t, never)
    symlinkSync(at('a.log'), at('sub/current'))
    // The watches of the previous test are closed a moment later.
    await until(() => watchedDirectories() === 0)
    const [link, file] = [watch('sub/current'), watch('a.log')]
    await Promise.all([stands(link), stands(file)])
    t.equal(watchedDirectories(), 2)
    link.release()
    await wakes(file, () => appendFileSync(at('a.log'), 'two\n'))
    file.release()
    await until(() => watchedDirectories() === 0)
  }
)

t.test('finds by polling what no notice reports: a directory that is created later', async t => {
  const { at, watch } = stageOf(t, 5)
  const late = watch('later/c.log')
  await stands(late)
  await wakes(late, () => {
    mkdirSync(at('later'))
    writeFileSync(at('later/c.log'), 'one\n')
  })
  await wakes(late, () => rmSync(at('later'), { recursive: true }))
})

t.test('waits no longer than requested, and not at all after an abort', async t => {
  const { watch } = stageOf(t, never)
  const quiet = watch('a.log')
  await stands(quiet)
  const now = quiet.wakes
  await quiet.woken(now, { withinMs: 1, signal })
  t.equal(quiet.wakes, now)
  const leaving = new AbortController()
  const waiting = quiet.woken(now, { signal: leaving.signal })
  leaving.abort(new Error('gone'))
  await t.rejects(waiting, { message: 'gone' })
  await t.rejects(quiet.woken(now - 1, { signal: leaving.signal }), { message: 'gone' })
  await quiet.woken(now - 1, { withinMs: never, signal })
})

t.test('wakes nobody after it was closed', async t => {
  const { at, watch, watcher } = stageOf(t, 5)
  const watched = watch('a.log')
  await stands(watched)
  watcher.close()
  const last = watched.wakes
  const another = new FileWatcher({ pollMs: never })
  t.teardown(() => another.close())
  const seeing = another.watch(at('a.log'))
  await stands(seeing)
  await wakes(seeing, () => appendFileSync(at('a.log'), 'two\n'))
  t.equal(watched.wakes, last)
})

t.test('gives one result to callers at the same time, and another to later ones', async t => {
  const looks = createSharedLooks()
  let count = 0
  const look = async (): Promise<number> => {
    const number = ++count
    await sleep(5)
    return number
  }
  t.same(await Promise.all([looks('a', look), looks('a', look), looks('b', look)]), [1, 1, 2])
  t.equal(await looks('a', look), 3, 'earlier results are not kept')
})

t.test('gives a failure to all callers, and does not keep it', async t => {
  const looks = createSharedLooks()
  const failing = async (): Promise<never> => {
    throw new Error('closed')
  }
  const results = await Promise.allSettled([looks('a', failing), looks('a', failing)])
  t.same(
    results.map(({ status }) => status),
    ['rejected', 'rejected']
  )
  t.equal(await looks('a', async () => 1), 1)
})
