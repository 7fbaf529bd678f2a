import { spawnSync } from 'node:child_process'
import t from 'tap'
import { crowdLimits, descriptorLimit, isOutOfDescriptors } from '../../../lib/http/core/descriptors.js'

t.test('keeps half of the descriptors free for work, whatever their number', t => {
  for (const descriptors of [64, 256, 1024, 20_000, 1_048_576]) {
    const { maxConnections, maxAnonymous, maxAnonymousPerAddress } = crowdLimits(descriptors)
    t.ok(maxConnections <= descriptors / 2 && maxConnections >= 32, `${descriptors}: ${maxConnections} connections`)
    t.ok(
      maxAnonymous <= maxConnections / 2 && maxAnonymousPerAddress <= maxAnonymous / 2,
      `${maxAnonymous}, ${maxAnonymousPerAddress}`
    )
  }
  t.end()
})

t.test('uses the limit of the process', { skip: process.platform !== 'linux' && 'only Linux says it in /proc' }, t => {
  const module = new URL('../../../lib/http/core/descriptors.js', import.meta.url).href
  const program = `import('${module}').then(({ descriptorLimit }) => console.log(descriptorLimit()))`
  const { stdout } = spawnSync('sh', ['-c', `ulimit -n 500 && exec "${process.execPath}" -e "${program}"`], {
    encoding: 'utf8'
  })
  t.equal(stdout, '500\n')
  t.ok(descriptorLimit() > 0)
  t.end()
})

t.test('recognizes a lack of descriptors', t => {
  t.ok(isOutOfDescriptors(Object.assign(new Error(), { code: 'EMFILE' })))
  t.ok(isOutOfDescriptors(Object.assign(new Error(), { code: 'ENFILE' })))
  for (const other of [new Error(), Object.assign(new Error(), { code: 'ENOENT' }), null, 'EMFILE'])
    t.notOk(isOutOfDescriptors(other))
  t.end()
})
