import t from 'tap'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

// What it writes, from a server and without one, is tested with what reads it: import.test.ts.

t.test('export creates no data directory if there is none', async t => {
  const cwd = t.testdir({})
  const { code, stderr } = await svc(['export'], { cwd })
  t.equal(code, 1)
  t.match(stderr, /error: There is nothing to export: no database found in "/)
  t.notOk(existsSync(join(cwd, '.svc')))
})

t.test('other programs can read a package', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  // Large enough to be written in blocks.
  await (await server.upload(project, { 'large.bin': randomBytes(7 * 1024 * 1024).toString('base64') })).finished
  await svc(['export', '--out', 'package.zip'], { cwd, env: { SVC_HOME: server.home } })
  const run = promisify(execFile)
  const listed = await run('unzip', ['-t', join(cwd, 'package.zip')]).catch((error: NodeJS.ErrnoException) => error)
  if (listed instanceof Error && listed.code === 'ENOENT') {
    t.comment('skipped: there is no unzip here')
    return
  }
  t.match(listed, { stdout: /svc-export\/artifacts\/proj_\w+\.zip/ })
  t.match(listed, { stdout: /No errors detected/ })
})
