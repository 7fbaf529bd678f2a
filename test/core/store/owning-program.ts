import type { Refusal } from '../../../lib/base/errors.js'
import { ownDirectory } from '../../../lib/core/store/owner.js'

/** Tries to own the given directory, prints the result, and stays until it is killed. */
try {
  await ownDirectory(process.argv[2] as string)
  console.log('owned')
} catch (error) {
  console.log((error as Refusal).code)
}
process.stdin.resume()
