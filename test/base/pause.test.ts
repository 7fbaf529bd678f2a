import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { pause } from '../../lib/base/pause.js'

t.test('an abort rejects with the reason of the signal, before and during the pause', async t => {
  const reason = new Error('Ctrl-C')
  const controller = new AbortController()
  const waiting = pause(60_000, controller.signal)
  controller.abort(reason)
  await t.rejects(waiting, reason)
  await t.rejects(pause(60_000, controller.signal), reason)
  await pause(0)
  await pause(0, new AbortController().signal)
})

t.test('no other wait rejects with an error that is not the reason', async t => {
  const lib = fileURLToPath(new URL('../../../lib', import.meta.url))
  const paths = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.ts'))
  t.ok(paths.length > 500)
  for (const path of paths.filter(path => path !== join('base', 'pause.ts'))) {
    const source = readFileSync(join(lib, path), 'utf8')
    const [, name] = /setTimeout(?: as (\w+))? } from 'node:timers\/promises'/.exec(source) ?? []
    if (path.startsWith('cli')) t.equal(name, undefined, `${path} uses pause`)
    if (name === undefined) continue
    // A wait that is caught, or raced, has an answer for the error.
    const bare = new RegExp(`^\\s*await ${name}\\((?!.*\\)\\.(?:catch|then)\\().*signal.*\\)$`, 'm').exec(source)
    t.equal(bare, null, `${path}: use pause`)
  }
})
