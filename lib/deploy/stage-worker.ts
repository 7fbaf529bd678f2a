/* The second thread of an extraction; second-stage.ts starts it, and says what it is for. */
import { parentPort, type MessagePort } from 'node:worker_threads'
import { createEntryReader } from '../archive/entry-data.js'
import { OpenFile } from '../base/open-file.js'
import { packError, type PackedError } from '../base/packed-error.js'
import { disk } from '../target/disk.js'
import { holdFolders } from '../target/folders.js'
import type { Item } from '../target/plan.js'
import { recordsIn } from '../target/record.js'
import { createStage } from '../target/stage.js'
import { cell, type StageMessage, type StageTask } from './second-stage.js'
import type { NumberedEntry } from './stage-entries.js'

const port = parentPort as MessagePort

interface Work {
  batch(batch: NumberedEntry[]): void
  end(): PackedError | null
}

function begin(task: StageTask, cells: Int32Array): Work {
  let failure: PackedError | null = null
  const isStopped = (): boolean => Atomics.load(cells, cell.stop) !== 0
  const fail = (error: unknown): void => {
    failure ??= packError(error)
    Atomics.store(cells, cell.stop, 1)
  }
  const opened: Array<{ close(): void }> = []
  let stageOne: ((file: NumberedEntry) => void) | null = null
  try {
    const file = new OpenFile(task.archivePath)
    opened.push(file)
    // The first thread closes the target.
    const folders = holdFolders(disk, { ...task.root, close: () => {} })
    opened.push(folders)
    const reader = createEntryReader({ file, fileSize: file.size })
    const items: Item[] = []
    const stage = createStage({ disk, folders, staging: task.staging, umask: task.umask, items, records: recordsIn(task.records) })
    stageOne = ({ index, entry }) => {
      items[index] = entry
      stage.file(index, reader.readWhole(entry))
      items.length = 0
    }
  } catch (error) {
    fail(error)
  }
  return {
    batch(batch) {
      try {
        for (const file of batch) if (!isStopped()) stageOne?.(file)
      } catch (error) {
        fail(error)
      }
      Atomics.add(cells, cell.done, 1)
    },
    end() {
      for (const each of opened) each.close()
      return failure
    }
  }
}

let work: Work | null = null

port.on('message', (message: StageMessage) => {
  if (message.kind === 'begin') {
    work = begin(message.task, message.cells)
  } else if (message.kind === 'batch') {
    work?.batch(message.batch)
  } else {
    port.postMessage(work?.end() ?? null)
    work = null
  }
})
