import t from 'tap'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { randomIds } from '../../lib/base/digests.js'
import { deploymentFilePattern, temporaryFilePattern, createFiles, makeDirectories } from '../../lib/deploy/files.js'

t.test('names and removes the files of a deployment', async t => {
  const directory = t.testdir({})
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const files = createFiles(home)
  await makeDirectories(home)
  await makeDirectories(home)
  const paths = [files.archive('dep_a'), files.output('dep_a'), files.manifest('dep_a')]
  t.strictSame(
    paths,
    ['zip', 'log', 'manifest'].map(kind => join(home.deployments, `dep_a.${kind}`))
  )
  for (const path of paths) await writeFile(path, 'x')
  await files.remove('dep_a')
  await files.remove('dep_a')
  t.notOk(paths.some(path => existsSync(path)))
})

t.test('recognizes its own file names', async t => {
  const id = randomIds.id('dep_')
  t.match(`${id}.zip`, deploymentFilePattern)
  t.match(`${randomIds.token()}.zip`, temporaryFilePattern)
  t.match(`${id}.changes`, temporaryFilePattern)
  for (const name of ['notes.zip', 'dep_1.zip', `${id}.zip.bak`, `x${id}.zip`]) {
    t.notMatch(name, deploymentFilePattern)
    t.notMatch(name, temporaryFilePattern)
  }
})
