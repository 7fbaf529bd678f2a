import t from 'tap'
import {
  artifactPath,
  deployedPath,
  outputPath,
  packageFiles,
  packageRoot,
  scriptedPath
} from '../../lib/transfer/package.js'

t.test('uses a different path below the root for each file', async t => {
  const paths = [
    ...Object.values(packageFiles),
    ...[artifactPath, outputPath, deployedPath, scriptedPath].map(path => path('one'))
  ]
  t.equal(new Set(paths).size, paths.length)
  for (const path of paths) t.notMatch(path, /^\/|\.\.|\\/, path)
  t.match(packageRoot, /^[^/]+\/$/)
  t.equal(artifactPath('proj_a'), 'artifacts/proj_a.zip')
})
