#!/usr/bin/env node
// Checks the version of Node before it parses newer syntax, then runs the compiled program.
const major = Number(process.versions.node.split('.')[0])
if (major < 18) {
  process.stderr.write(`svc needs Node.js 18 or newer: this is ${process.version}\n`)
  process.exit(1)
}
import('../dist/lib/cli/entry.js')
  .then(({ main }) => main(process.argv.slice(2), process))
  .then(
    code => {
      process.exitCode = code
    },
    async error => {
      const isBuilt = !(
        error &&
        error.code === 'ERR_MODULE_NOT_FOUND' &&
        /cli[\\/]entry\.js/.test(String(error.message))
      )
      process.exitCode = 1
      if (!isBuilt) return void process.stderr.write('svc is not built yet: run "make build" in its directory\n')
      const { cleanText } = await import('../dist/lib/cli/terminal/terminal-text.js')
      process.stderr.write(cleanText(`${error && error.stack}\n`))
    }
  )
