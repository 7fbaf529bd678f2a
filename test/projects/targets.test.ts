import { linkSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createTargets, type Owned } from '../../lib/projects/targets.js'
import { maySwitchUser } from '../../lib/core/proc/identity.js'
import { openDirectory } from '../support/open-directory.js'

const limits = { maxEntries: 100, forMs: 60_000 }
const inspect = async (): Promise<void> => {}
const targets = createTargets()

/** Creates a target with a file of 5 bytes and one of 7. */
function aTarget(directory: string, name: string): string {
  const target = join(directory, name)
  mkdirSync(join(target, 'below'), { recursive: true })
  writeFileSync(join(target, 'a.txt'), 'hello')
  writeFileSync(join(target, 'below/b.txt'), 'goodbye')
  return target
}

const owned = (deployPath: string, runAs: string | null = null): Owned => ({ deployPath, runAs, umask: null })

async function opened(t: Test, project: Owned): Promise<string> {
  const file = await targets.open(project, 'below/b.txt', inspect)
  try {
    t.match(file, { path: 'below/b.txt', name: 'b.txt', size: 7 })
    return await file.handle.readFile('utf8')
  } finally {
    await file.handle.close()
  }
}

const switches = maySwitchUser() ? false : 'only root on Linux can take on the rights of another user'
for (const runAs of [null, 'nobody']) {
  const skip = runAs === null ? false : switches
  t.test(`lists, reads and measures a target with the rights of ${runAs ?? 'svc'}`, { skip }, async t => {
    const directory = openDirectory(t)
    const project = owned(aTarget(directory, 'site'), runAs)
    t.match(await targets.list(project, ''), [
      { name: 'below', isDir: true },
      { name: 'a.txt', size: 5, isDir: false }
    ])
    t.equal(await opened(t, project), 'goodbye')
    t.strictSame(await targets.measure([project], limits), [12])
    await t.rejects(targets.list(project, 'missing'), { code: 'not_found' })
    await t.rejects(
      targets.open(project, 'below/b.txt', async () => {
        throw new Error('not this one')
      }),
      { message: 'not this one' }
    )
  })
}

t.test('returns sizes in the order of the projects, and null if unknown', { skip: switches }, async t => {
  const directory = openDirectory(t)
  const [first, second] = ['first', 'second'].map(name => aTarget(directory, name)) as [string, string]
  writeFileSync(join(second, 'more.txt'), 'more')
  linkSync(join(second, 'more.txt'), join(second, 'same.txt'))
  const projects = [
    owned(second, 'nobody'),
    owned(first),
    owned(join(directory, 'missing'), 'nobody'),
    owned(first, 'no-such-user-here'),
    owned(second),
    owned(first, 'nobody')
  ]
  t.strictSame(await targets.measure(projects, limits), [16, 12, null, null, 16, 12])
  t.strictSame(await targets.measure(projects, { ...limits, maxEntries: 4 }), [null, 12, null, null, null, 12])
  t.strictSame(
    await targets.measure(projects, { ...limits, forMs: 0 }),
    [null, null, null, null, null, null],
    'no time'
  )
})
