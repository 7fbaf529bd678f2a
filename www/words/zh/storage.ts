import type { Words } from '../t.js'

/** `pages/storage.ts` */
export const words: Words = {
  'the storage': '存储',
  '{size} in use': '已用 {size}',
  '{path}: {free} of {total} free on its disk': '{path}：所在磁盘剩余 {free}，共 {total}',
  'Data directory': '数据目录',
  'Archives': '压缩包',
  'Outputs and lists of files': '输出与文件清单',
  'Temporary files': '临时文件',
  'Database': '数据库',
  'The disk is {percent} full, with all that others keep on it.': '磁盘已用 {percent}（包括其他程序的内容）。',
  'No projects yet: nothing is kept for any.': '还没有项目，没有保留任何内容。',
  'Project': '项目',
  'Size': '大小',
  'Outputs': '输出',
  'Target': '目标目录',
  '{size} kept': '保留了 {size}',
  'Missing, or too large to be counted in passing': '不存在，或太大而无法即时统计',
  'Clean up?': '要清理吗？',
  'Older archives of successful deployments go, and with them the way back to those deployments; so do temporary files that nothing uses. Targets, records and outputs stay. What would go is shown first.':
    '会删除成功部署的旧压缩包（之后无法再回滚到这些部署）以及无用的临时文件。目标目录、记录和输出都会保留。会先显示将删除的内容。',
  'Archives kept per project': '每个项目保留的压缩包数',
  'Scope': '范围',
  'Show all {count}': '显示全部 {count}',
  'Every project, and temporary files': '所有项目及临时文件',
  'These, and files without a record': '以上内容及没有记录的文件',
  'Files without a record': '没有记录的文件',
  '{count} without a record stay ({size}): they may be all that is left of a lost database. The scope says whether they go.':
    '{count}没有记录，予以保留（{size}）：它们可能是丢失的数据库仅存的内容。是否删除由范围决定。',
  'Looking…': '正在查看…',
  'Show what would go…': '查看将删除的内容…',
  'Nothing would go: no more is kept than that.': '没有可删除的内容：保留的数量未超过此值。',
  '{size} would come free. The way back to these deployments is lost for good:': '将释放 {size}。之后将永远无法回滚到这些部署：',
  'Deleting…': '正在删除…',
  'Delete {count}': '删除 {count}',
  '{size} came free': '已释放 {size}',
  'archive': '个压缩包',
  'and of others': '以及其他'
}
