# Keeps the root file system full: what anybody frees is taken again at once.
mkdir -p /fill
n=0
for size in 256M 4M 64K; do
  while fallocate -l $size /fill/$n 2>/dev/null; do n=$((n + 1)); done
done
while :; do
  dd if=/dev/zero of=/fill/rest bs=4096 oflag=append conv=notrunc 2>/dev/null || sleep 0.05
done
