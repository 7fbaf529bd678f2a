import { formatBytes } from '../../lib/base/shared/api.js'
import { auditedPackages, installedPackage } from './dependencies.js'

/* `make audit`: every package that a running svc may load, what it is, and what it may touch. */

for (const { name, version, licence, integrity, isOptional, neededBy, installScripts, touches } of auditedPackages()) {
  const installed = installedPackage(name)
  console.log(`${name} ${version}  ${licence}${isOptional ? ', optional' : ''}, for ${neededBy}`)
  console.log(`  ${integrity}`)
  console.log(
    `  ${installed === null ? 'not installed here' : `${installed.files} files, ${formatBytes(installed.bytes)}`}`
  )
  console.log(`  runs when installed: ${installScripts.length === 0 ? 'nothing' : installScripts.join('; ')}`)
  console.log(`  ${touches}\n`)
}
