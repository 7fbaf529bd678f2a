import t from 'tap'
import { suggestOutputDirectory } from '../../../lib/cli/pack/output-directory.js'

t.test('suggestOutputDirectory returns the first usual directory that contains files', async t => {
  const cases: Array<[files: object, expected: string]> = [
    [{}, './'],
    [{ src: { a: '' } }, './'],
    [{ dist: {}, public: { a: '' } }, 'public'],
    [{ dist: { a: '' }, public: { a: '' } }, 'dist'],
    [{ build: 'a file', _site: { a: '' } }, '_site'],
    [{ out: { a: '' } }, 'out']
  ]
  for (const [files, expected] of cases)
    t.equal(await suggestOutputDirectory(t.testdir(files as never)), expected, JSON.stringify(files))
})
